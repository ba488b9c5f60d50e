"""What a node knows of the ports of others, and keeps over a restart."""

from leveret.broker.runtime.node_address import DEFAULT_PORT
from leveret.cluster.links.addresses import ADDRESSES_FILE, ENTRIES_MAX, AddressBook, KnownPort

B = "b@host"


def test_a_node_that_is_not_known_is_at_the_default_port():
    assert AddressBook(None).port_of(B) == DEFAULT_PORT


def test_learned_addresses_are_kept(tmp_path):
    book = AddressBook(tmp_path)
    book.tell(B, 25673)
    book.learn(KnownPort("c@host", 25674, 7))
    again = AddressBook(tmp_path)
    assert again.port_of(B) == 25673
    assert again.port_of("c@host") == 25674
    again.forget(B)
    assert AddressBook(tmp_path).port_of(B) == DEFAULT_PORT


def test_what_others_say_counts_if_it_is_newer():
    book = AddressBook(None)
    book.learn(KnownPort(B, 25673, 7))
    book.hear([KnownPort(B, 1, 6), KnownPort("c@host", 25674, 1)], "a@host")
    assert book.port_of(B) == 25673
    assert book.port_of("c@host") == 25674
    book.hear([KnownPort(B, 25680, 8)], "a@host")
    assert book.port_of(B) == 25680


def test_what_a_node_says_of_itself_counts_in_any_case():
    book = AddressBook(None)
    book.learn(KnownPort(B, 25673, 7))
    book.learn(KnownPort(B, 25674, 3))
    assert book.port_of(B) == 25674


def test_what_others_say_of_this_node_or_in_no_valid_form_does_not_count():
    book = AddressBook(None)
    said = [KnownPort("a@host", 1, 9), KnownPort("b\n@host", 1, 9), KnownPort(B, 0, 9)]
    book.hear([*said, KnownPort(B, 70_000, 9)], "a@host")
    assert list(book) == []


def test_a_peer_cannot_fill_the_memory():
    book = AddressBook(None)
    book.hear([KnownPort(f"n{number}@host", 1, 1) for number in range(2 * ENTRIES_MAX)], "a@host")
    assert len(list(book)) == ENTRIES_MAX


def test_a_file_that_cannot_be_read_is_left_out(tmp_path, caplog):
    for content in (b"", b"{", b'[{"node": 1}]', b"\xff\xfe"):
        (tmp_path / ADDRESSES_FILE).write_bytes(content)
        book = AddressBook(tmp_path)
        assert list(book) == []
        assert "failed to read the addresses of other nodes" in caplog.text
        caplog.clear()


def test_a_file_that_cannot_be_written_is_logged(tmp_path, caplog):
    book = AddressBook(tmp_path / "no directory")
    book.tell(B, 25673)
    assert book.port_of(B) == 25673
    assert "failed to write the addresses of other nodes" in caplog.text
