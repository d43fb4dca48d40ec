"""Fixtures: a store on this machine, and buckets of their own in it."""

import logging
from collections.abc import Iterator
from secrets import token_hex

import fsspec
import fsspec.config
import pytest
from botocore.retries.standard import ExponentialBackoff
from moto.server import ThreadedMotoServer

from attomaton.base.remote import RemotePath
from tests.base.remote.store import PATIENT, Faults, Proxy


@pytest.fixture(scope="session")
def proxy() -> Iterator[Proxy]:
    """The proxy before a store; by itself it lets everything through."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    proxy = Proxy(*server.get_host_and_port())
    yield proxy
    proxy.stop()
    server.stop()


@pytest.fixture
def bucket(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemotePath]:
    """A new bucket, reached through the proxy; readers are as patient as in earnest, but quicker."""
    name = f"bucket-{token_hex(4)}"
    proxy.faults = Faults()
    proxy.make_bucket(name)
    store = {"key": "key", "secret": "secret", "endpoint_url": proxy.url}
    waits = {"read_timeout": PATIENT, "connect_timeout": 5}
    monkeypatch.setitem(fsspec.config.conf, "s3", {**store, "config_kwargs": waits})
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0.01)
    yield RemotePath(f"s3://{name}")
    proxy.faults = Faults()
