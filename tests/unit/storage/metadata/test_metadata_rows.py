"""The rows of the metadata."""

from leveret.storage.metadata.metadata_rows import Definitions, UserRow


def test_a_user_is_shown_without_the_password_hash():
    row = UserRow("ann", b"secret hash", "rabbit_password_hashing_sha256", "administrator")
    assert "secret" not in repr(row)
    assert "ann" in repr(row)


def test_definitions_do_not_share_their_lists():
    Definitions().vhosts.append(None)
    assert Definitions().vhosts == []
