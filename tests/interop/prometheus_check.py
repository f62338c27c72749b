"""Checks a monitor with Prometheus: promtool accepts /metrics, a server scrapes it and finds every metric, and every
expression of the Grafana dashboard can be evaluated and names exported metrics only.

Usage: prometheus_check.py http://127.0.0.1:PORT DASHBOARD FOLDER"""
import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

DEADLINE_SECONDS = 60


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def check_text(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(target, folder):
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "200ms"},
        "scrape_configs": [{"job_name": "training", "static_configs": [{"targets": [target]}]}]}))
    port = free_port()
    log = open(folder / "log", "w")
    process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    return process, f"http://127.0.0.1:{port}"


def query(server, expression):
    answer = json.loads(get(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    assert answer["status"] == "success", (expression, answer)
    return answer["data"]["result"]


def wait_for(process, condition):
    """Asks again until the server is up and has scraped."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "prometheus has ended"
        try:
            if condition():
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.05)
    raise AssertionError("prometheus has not scraped the monitor")


def main(url, dashboard, folder):
    folder = pathlib.Path(folder)
    text = get(url + "/metrics")
    check_text(text)
    exported = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    process, server = start(url.removeprefix("http://"), folder)
    try:
        wait_for(process, lambda: query(server, "penstock_steps_total"))
        for name, kind in exported.items():
            assert query(server, name + ("_bucket" if kind == "histogram" else "")), f"{name} was not scraped"
        assert query(server, 'penstock_log{name="a \\"b\\\\c"}')[0]["value"][1] == "0.1"
        expressions = [t["expr"] for p in json.loads(pathlib.Path(dashboard).read_text())["panels"] for t in p["targets"]]
        assert len(expressions) > 10
        for expression in expressions:
            for name in re.findall(r"penstock_\w+", expression):
                assert re.sub("_bucket$", "", name) in exported, f"{name} of the dashboard is not exported"
            query(server, expression.replace("$job", ".*"))
    finally:
        process.terminate()
        process.wait()


main(*sys.argv[1:])
