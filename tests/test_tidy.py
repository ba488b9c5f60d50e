"""Code rules that no linter checks: sizes, docstrings, phrases, leftovers, labels of invariants."""

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("leveret", "broker", "storage", "cluster", "mgmt", "analytics")
FOLDERS = PACKAGES[1:]
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
DESIGN_PAGES = [page for page in PAGES if page.parent.name == "design"]
PRINTING = ("mgmt", "analytics")
LINE_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX = 100, 600, 70
REVIEWED = {
    "broker/queues/classic/classic_queue.py": "Its parts are objects of their own. What is left is "
    "the order in which they are called, by methods that compiled code calls directly.",
}
"""Files that may be longer than FILE_LINES_MAX, and why each of them is one thing."""

# Written so that this file does not contain what it forbids.
LEFTOVERS = re.compile(r"T[O]DO|F[I]XME|X[X]X")
MACHINE_PATHS = re.compile(r"(?<![\w}])/w[o]rk/|/t[m]p/w|/h[o]me/[a-z]")
IMPORT_OF_A_FOLDER = re.compile(rf"^\s*(from|import) ({'|'.join(FOLDERS)})\b")
TIME_LIMIT = re.compile(
    r"assert .*\b(monotonic|perf_counter|process_time|thread_time)\(\)(?!.*(deadline|PATIENCE))"
)
PHRASES = re.compile(
    r"none any m[o]re|by the t[u]rn\b|\bas f[a]r as\b|\bis s[o](?:[.,;:]|$)|a turn's w[o]rth"
    r"|\b[a]new\b|\bin v[a]in\b|any m[o]re(?:[.,;:)\"]|$)|\bby w[a]y of\b|\bcome r[o]und\b"
    r"|(?<![a-zA-Z])(?:[Ww]h[o]ever|(?:[Ee]v[e]ry|[Aa]n[y])body)(?![a-z])"
    r"|\b[Ss]o m[a]ny\b|\bthose w[h]o\b|def test_w[h]o_"
    r'|"""S[e]e (?:`|the (?:module|class)\b)',
    re.MULTILINE,
)
"""Phrases without a right use, and docstrings that only refer to another one."""
PEOPLE = re.compile(r"(?<![a-zA-Z])(?:[Nn]o|[Ss]ome)b[o]dy(?![a-z])")
"""Words for people, where a node, a member or a client is meant. Tests have users so named."""
PACKED = {".whl", ".gz", ".bz2", ".xz", ".zip", ".tar", ".deb", ".jar", ".so", ".pyc"}
LABEL = re.compile(r"(?<![\w$%\\/])([A-Z]{1,3})(\d{1,2})(?!\w)")
DEFINED_LABEL = re.compile(
    r"^\s*(?:- )?(?:Invariant )?([A-Z]{1,3}\d{1,2})(?:[.:] |  )", re.MULTILINE
)
NOT_LABELS = {"MD5", "RC4"}
NAMED_MODULE = re.compile(r"(?<![\w*{}/])(?:[\w-]+/)*([a-z_0-9]+\.py)\b")
MODULES_OF_OTHERS = {
    "announce.py", "first_word.py", "listen.py", "send.py", "shop.py", "test_orders.py", "work.py",
}  # fmt: skip
"""Modules that are examples of what users write."""
CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
PARALLEL_PACKAGES = {
    "each protocol has its own, and its package names it": (
        ("broker/protocols/", "broker/amqp/"),
        {
            "Connection", "FrameError", "FrameInput", "FrameScanner", "Incoming",
            "IncomingConnection", "Login", "LoginConnection", "Output", "Published", "Subscription",
            "Subscriptions",
        },
    ),
    "quorum queues and streams are replicated in the same way": (
        ("cluster/quorum/", "cluster/streams/"),
        {
            "Applied", "CommandError", "EffectError", "Gathered", "Join", "Sender",
            "UnknownSender",
        },
    ),
}  # fmt: skip
"""The names of classes that parallel packages share, by the reason: the packages, and the names."""
LINTER_REMARK = re.compile(r"  # noqa.*")


def tracked():
    """Return the Python files in the repository, or all files if it is not a repository."""
    folders = (*PACKAGES, "tests")
    patterns = [f"{folder}/*.py" for folder in folders]
    try:
        command = ["git", "ls-files", "--", *patterns]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = listing.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
        names = [path.relative_to(ROOT).as_posix() for path in found]
    return sorted(name for name in names if (ROOT / name).exists())


def every_tracked():
    """Return all files of the repository, or those beside this project's if it is not one."""
    command = ["git", "ls-files"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = listing.stdout.splitlines() or [path.name for path in ROOT.iterdir() if path.is_file()]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


FILES = tracked()
OURS = [name for name in FILES if name.startswith(PACKAGES)]


class Module:
    """A file that is read and parsed once, for all rules.

    There are thousands of files, and next to none breaks a rule: what takes long, lines one by one
    and parts of expressions, is looked at where the text has what a rule looks for.
    """

    def __init__(self, name):
        self.name = name
        self.text = (ROOT / name).read_text(encoding="utf-8")
        self.lines = list(enumerate(self.text.splitlines(), 1))
        self.tree = ast.parse(self.text)

    def matching(self, pattern):
        """Yield the lines that match."""
        if pattern.search(self.text):
            yield from (f"{number}: {line}" for number, line in self.lines if pattern.search(line))

    def statements(self):
        """Yield the statements, those within others too."""
        inner = [self.tree]
        while inner:
            node = inner.pop()
            yield node
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner += getattr(node, name, ())


def lines_are_short(module):
    """No line is longer than LINE_MAX."""
    for number, line in module.lines:
        if len(line) > LINE_MAX and len(LINTER_REMARK.sub("", line)) > LINE_MAX:
            yield f"{number}: longer than {LINE_MAX} characters"


def the_file_is_short(module):
    """No file is longer than FILE_LINES_MAX, except those that were reviewed."""
    if len(module.lines) > FILE_LINES_MAX and module.name not in REVIEWED:
        yield f"more than {FILE_LINES_MAX} lines"


def functions_are_short(module):
    """No function is longer than FUNCTION_LINES_MAX."""
    for node in module.statements():
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
        ):
            yield f"{node.lineno}: {node.name} is longer than {FUNCTION_LINES_MAX} lines"


def the_module_says_what_it_is(module):
    """Each module has a docstring."""
    if not ast.get_docstring(module.tree):
        yield "no docstring"


def nothing_is_left_for_later(module):
    """No file has a remark about work that is to be done."""
    return module.matching(LEFTOVERS)


def no_phrase_is_hard_to_read(module):
    """Texts say things plainly. A docstring says one fact itself, or the contract has it."""
    yield from module.matching(PHRASES)
    if module.name.startswith(PACKAGES):
        yield from module.matching(PEOPLE)


def no_test_fails_for_being_slow(module):
    """Tests wait for conditions, as long as tests/patience.py says. Speed is for tests/bench."""
    return module.matching(TIME_LIMIT)


def no_file_knows_the_machine_it_was_written_on(module):
    """No path of a developer's machine is in a file."""
    return module.matching(MACHINE_PATHS)


def imported_names(node):
    """Return the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def everything_is_imported_as_leveret(module):
    """A module that is imported under two names exists twice."""
    for node in module.statements():
        for imported in imported_names(node):
            if imported.partition(".")[0] in FOLDERS:
                yield f"{node.lineno}: import leveret.{imported} instead of {imported}"


def the_broker_logs_and_does_not_print(module):
    """Only programs print."""
    if not module.name.startswith(PACKAGES) or module.name.startswith(PRINTING):
        return
    if "print" not in module.text:
        return
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield f"{node.lineno}: print"


RULES = (
    lines_are_short,
    the_file_is_short,
    functions_are_short,
    the_module_says_what_it_is,
    nothing_is_left_for_later,
    no_phrase_is_hard_to_read,
    no_test_fails_for_being_slow,
    no_file_knows_the_machine_it_was_written_on,
    everything_is_imported_as_leveret,
    the_broker_logs_and_does_not_print,
)


def broken_rules(module):
    """Yield what each rule finds."""
    return (f"{found} ({rule.__name__})" for rule in RULES for found in rule(module))


@pytest.mark.parametrize("folder", [*PACKAGES, "tests"])
def test_the_rules_are_kept(folder):
    """One test for a folder: pytest takes as long to run a test as the rules take for a file."""
    names = [name for name in FILES if name.startswith(f"{folder}/")]
    broken = [f"{name}:{found}" for name in names for found in broken_rules(Module(name))]
    assert names
    assert not broken, "\n".join(broken)


def test_reviewed_files_are_long():
    assert REVIEWED.keys() <= set(FILES)
    assert [name for name in REVIEWED if len(Module(name).lines) <= FILE_LINES_MAX] == []


def test_no_archive_or_program_is_in_the_repository():
    assert [path.name for path in every_tracked() if path.suffix in PACKED] == []


def test_there_are_files():
    assert "broker/amqp/frames.py" in FILES
    assert len(OURS) > 50


def test_modules_that_are_named_exist():
    examples = ROOT.glob("docs/operate/examples/*.py")
    modules = {path.name for path in (*ROOT.glob("*.py"), *examples)}
    modules |= {Path(name).name for name in FILES}
    pages = [str(page.relative_to(ROOT)) for page in PAGES]
    named = {
        f"{name}: {module}"
        for name in [*OURS, *pages]
        if name.endswith((".py", ".md"))
        for module in NAMED_MODULE.findall((ROOT / name).read_text("utf-8"))
        if module not in modules | MODULES_OF_OTHERS
    }
    assert named == set()


def test_a_name_of_a_class_stands_for_one_thing():
    """Two classes of one name are one idea in parallel packages, or one is misnamed."""
    modules = defaultdict(list)
    for name in (name for name in OURS if name.startswith(FOLDERS)):
        for found in CLASS.findall((ROOT / name).read_text(encoding="utf-8")):
            modules[found].append(name)
    repeated = {name: found for name, found in modules.items() if len(found) > 1}
    listed = {name: packages for packages, names in PARALLEL_PACKAGES.values() for name in names}
    unlisted = {
        name: found
        for name, found in repeated.items()
        if not all(module.startswith(listed.get(name, ())) for module in found)
    }
    assert unlisted == {}
    assert listed.keys() - repeated.keys() == set()


def lines_of_documents(*patterns):
    """The lines of all documents in which one of the patterns is found."""
    return [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in [ROOT / "README.md", *PAGES]
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if any(pattern.search(line) for pattern in patterns)
    ]


def test_the_documents_import_leveret():
    assert lines_of_documents(IMPORT_OF_A_FOLDER) == []


def test_the_documents_have_no_phrase_that_is_hard_to_read():
    assert lines_of_documents(PHRASES, PEOPLE) == []


@pytest.fixture(scope="module")
def defined_labels():
    """Return the files that define each label of an invariant, such as TQ1.

    Modules do so in their docstring, pages of the design anywhere: "TQ1  Each position ...".
    """
    defined = defaultdict(list)
    for path in [*(ROOT / name for name in OURS), *DESIGN_PAGES]:
        text = path.read_text(encoding="utf-8")
        is_module = path.suffix == ".py"
        for label in DEFINED_LABEL.findall(text.split('"""')[1] if is_module else text):
            defined[label].append(path.name)
    return defined


def test_each_label_of_an_invariant_is_defined_once(defined_labels):
    assert len(defined_labels) > 100
    assert {label: files for label, files in defined_labels.items() if len(files) > 1} == {}


def test_each_label_that_is_used_is_defined(defined_labels):
    prefixes = {label.rstrip("0123456789") for label in defined_labels}
    known = {*defined_labels, *NOT_LABELS}
    unknown = [
        f"{path.relative_to(ROOT)}: {prefix}{number}"
        for path in [*(ROOT / name for name in FILES), *PAGES]
        for prefix, number in LABEL.findall(path.read_text(encoding="utf-8"))
        if prefix in prefixes and prefix + number not in known
    ]
    assert unknown == []


def test_lower_bounds_of_dependencies_are_of_the_major_versions_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    untested = []
    for requirement in project["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", requirement).groups()
        installed = metadata.version(name)
        numbers, lowest = ([int(part) for part in re.findall(r"\d+", one)] for one in
                           (installed, bound))  # fmt: skip
        if numbers < lowest or numbers[0] != lowest[0]:
            untested.append(f"{requirement}, tested with {installed}")
    assert untested == []
