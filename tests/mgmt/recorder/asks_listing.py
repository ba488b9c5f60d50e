"""Lists: paging, sorting, filtering and columns, with valid and invalid parameters."""

from tests.mgmt.recorder.requests import get, put
from tests.mgmt.recorder.scenario import Scenario

QUEUES = "queues/{v}"
COLUMNS = "columns=name,durable"
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "Alpha2", "z.1", "a%2Bb", "%C3%BC")

PAGES = (
    "page=1",
    "page=1&page_size=2",
    "page=2&page_size=4",
    "page=3&page_size=4",
    "page=4&page_size=4",
    "page=0",
    "page=-1",
    "page=x",
    "page=1&page_size=0",
    "page=1&page_size=501",
    "page=1&page_size=500",
    "page=1&page_size=x",
    "page_size=3",
    "page=1&name=alpha",
    "page=1&name=ALPHA",
    "page=1&name=nothing",
    "page=1&name=%5Ea&use_regex=true",
    "page=1&name=%5Ea&use_regex=false",
    "page=1&name=%5B&use_regex=true",
    "page=1&name=a&use_regex=perhaps",
    "page=1&name=lph&use_regex=true&page_size=1",
    "name=alpha",
    "page=1&page_size=3&sort=name",
    "page=1&page_size=3&sort=name&sort_reverse=true",
    "page=1&pagination=true",
    "pagination=true",
    "page=1&page_size=2&pagination=false&sort=name",
    "page=1&page_size=3&sort=durable",
    "page=1&page_size=3&sort=unknown",
)
SORTS = (
    "sort=name",
    "sort=name&sort_reverse=true",
    "sort=arguments.x-max-length&sort_reverse=false",
    "sort=unknown",
    "sort=durable&sort_reverse=true",
    "sort_reverse=true",
)

LISTS_THAT_ARE_PAGED = ("exchanges/{v}", "connections", "channels", "vhosts", "users", "nodes",
                        "bindings/{v}", "policies/{v}", "consumers/{v}")  # fmt: skip

PAGED = (
    *(put(f"{QUEUES}/{name}", {"durable": place % 2 == 0}) for place, name in enumerate(NAMES)),
    *(get(f"{QUEUES}?{page}&{COLUMNS}", ordered=True) for page in PAGES),
    *(get(f"{QUEUES}?{sort}&{COLUMNS}", ordered=True) for sort in SORTS),
    get(f"{QUEUES}?columns=unknown"),
    get(f"{QUEUES}?columns=name,arguments.x-max-length,unknown.deep"),
    get(f"{QUEUES}?columns=name&columns=vhost"),
    *(get(f"{path}?page=0") for path in LISTS_THAT_ARE_PAGED),
    get("exchanges/{v}?page=1&page_size=3&sort=name&columns=name,type", ordered=True),
    get("exchanges/{v}?page=1&name=top&columns=name", ordered=True),
    get("vhosts?page=1&name=golden-paging&columns=name"),
    get("exchanges/{v}?sort=name&columns=name", ordered=True),
    get("exchanges/{v}?sort=type&sort_reverse=true&columns=type", ordered=True),
)

LISTING = (Scenario("paging", PAGED),)
