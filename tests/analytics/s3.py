"""A server of S3 (moto), and Spark's access to it (hadoop-aws), of packages that pip installs.

Leveret needs neither, so they are installed in build/s3 when a test first needs them: 190 MB.
hadoop-aws is in the source package of sagemaker-pyspark, with the AWS library that it needs.
"""

import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_port

KEPT = Path(__file__).resolve().parents[2] / "build" / "s3"
MOTO = "moto[server]>=5"
JARS_OF = "sagemaker-pyspark==1.4.5"
JARS = ("hadoop-aws-", "aws-java-sdk-bundle-")
DURATIONS = {
    "threads.keepalivetime": "60", "connection.establish.timeout": "30000",
    "connection.timeout": "200000", "connection.ttl": "300000", "multipart.purge.age": "86400",
}  # fmt: skip
"""Spark's Hadoop is newer than this hadoop-aws, and its defaults have units, such as `60s`."""
PROVIDER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
HOST, USER, PASSWORD = "127.0.0.1", "minio", "secret-of-minio"


def _jars():
    """The files of hadoop-aws and of the AWS library."""
    if not list(KEPT.glob("*.jar")):
        KEPT.mkdir(parents=True, exist_ok=True)
        # Not built: only the archive is needed.
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                   "--no-build-isolation", "--dest", KEPT, JARS_OF]  # fmt: skip
        subprocess.run(command, check=True)
        [package] = KEPT.glob("sagemaker*.tar.gz")
        with tarfile.open(package) as archive:
            for one in archive:
                name = Path(one.name).name
                if name.startswith(JARS):
                    one.name = name
                    archive.extract(one, KEPT, filter="data")
        package.unlink()
    return sorted(KEPT.glob("*.jar"))


def _python():
    """The Python of an environment with moto."""
    python = KEPT / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(KEPT / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", MOTO], check=True)
    return python


@contextmanager
def s3_server(directory):
    """Start a server without buckets; its URL."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    with (directory / "moto.log").open("w") as log:
        process = subprocess.Popen(
            [_python(), "-m", "moto.server", "-H", HOST, "-p", str(port)],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _wait_for(url):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(url).close()
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(LOOK_SECONDS)
        else:
            return


def of_arrow(url):
    """The server, as PyArrow's file system."""
    return fs.S3FileSystem(
        access_key=USER, secret_key=PASSWORD, endpoint_override=url, region="us-east-1",
        allow_bucket_creation=True,
    )  # fmt: skip


def spark_settings(url):
    """Settings with which s3a:// is the server."""
    jars = os.pathsep.join(map(str, _jars()))
    return {
        "spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars,
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.aws.credentials.provider": PROVIDER,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": USER, "spark.hadoop.fs.s3a.secret.key": PASSWORD,
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in DURATIONS.items()},
    }  # fmt: skip
