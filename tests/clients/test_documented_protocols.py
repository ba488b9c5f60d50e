"""The example of docs/operate/mixed-protocols.md: a sensor, a worker and a page, as printed.

The page's script is not run: a client of WebSockets subscribes to its destination.
"""

import asyncio
import re
import threading
from pathlib import Path

import aiohttp
import pika
import pytest

from leveret.broker.config import Config, Listener, MqttSettings, TcpSettings
from leveret.broker.config.web_socket_settings import WebStompSettings
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS, until

pytest.importorskip("paho.mqtt", reason="the extra [test] is not fully installed")

HOST = "127.0.0.1"
ANY = (Listener(HOST, 0),)
PAGE = Path(__file__).parents[2] / "docs" / "operate" / "mixed-protocols.md"
TEXT = PAGE.read_text()
WORKER, SENSOR = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(SCRIPT,) = re.findall(r"```javascript\n(.*?)```", TEXT, re.DOTALL)
CONNECT = "CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\nhost:/\n\n\0"
CONFIG = Config(
    tcp=TcpSettings(listeners=ANY), mqtt=MqttSettings(listeners=ANY),
    web_stomp=WebStompSettings(listeners=ANY),
)  # fmt: skip


def functions(source):
    """What an example defines."""
    found = {"__name__": "example"}
    exec(compile(source, PAGE.name, "exec"), found)
    return found


@pytest.fixture
def broker():
    with EmbeddedBroker.in_thread(config=CONFIG) as broker:
        yield broker


def port_of(broker, protocol):
    return broker.call(lambda embedded: embedded.broker.listeners.of(protocol)[0].port)


@pytest.fixture
def _worker(broker):
    """The worker, which runs until the test ends."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    thread = threading.Thread(target=functions(WORKER)["work"], args=(connection, 30))
    thread.start()
    yield
    connection.add_callback_threadsafe(connection.close)
    thread.join(PATIENCE_SECONDS)


@pytest.mark.usefixtures("_worker")
async def test_a_sensor_a_worker_and_a_page(broker):
    destination = re.search(r'subscribe\("([^"]+)"', SCRIPT).group(1)
    url = f"http://{HOST}:{port_of(broker, 'http/web-stomp')}/ws"
    queues = lambda: broker.call(lambda one: list(one.broker.services.vhosts["/"].queues))  # noqa: E731
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v12.stomp"]) as page,
    ):
        await page.send_str(CONNECT)
        await page.receive_str()
        await page.send_str(f"SUBSCRIBE\nid:0\nreceipt:1\ndestination:{destination}\n\n\0")
        assert "receipt-id:1" in await page.receive_str()
        await until(lambda: "temperatures" in queues())
        measure = functions(SENSOR)["measure"]
        await asyncio.to_thread(measure, HOST, port_of(broker, "mqtt"), [21.5, 35.0])
        alert = await page.receive_str()
    assert "destination:/topic/alerts.kitchen\n" in alert
    assert alert.endswith("\n\n35.0\0\n")
