"""Lines of `bench/run data`: the input pipeline beside tf.data, libjpeg-turbo and limits of the machine."""
import subprocess
import time

from side_by_side import BUILD, ITEMS, MEMORY, ROOT, Line, Match, Worker, build, make_folder, run, say

FOLDER = BUILD / "photos"
PYTHON = ROOT / "venv" / "bin" / "python"
PROGRAM = ROOT / "build" / "release" / "bench" / "bench_data"
STORAGE = ROOT / "build" / "release" / "bench" / "bench_storage"
TFDATA = ROOT / "bench" / "peers" / "data" / "tfdata.py"


def set_up():
    say("installing what is missing (tools/setup, tools/venv, tools/fake-gcs-server)")
    run("tools/setup", "bench")
    run("tools/setup", "test")  # Go, for the emulator
    run("tools/fake-gcs-server")
    run("tools/venv")
    build("bench_data", "bench_storage")
    make_folder(FOLDER, PROGRAM)  # 2,000 photographs of 331x331


class Cat:
    """Side that copies all shards to /dev/null with `cat`, in records per second."""

    def round(self):
        files = sorted(FOLDER.glob("*.tfrec"))
        begin, times = time.perf_counter(), 0
        while time.perf_counter() - begin < 1:
            subprocess.run(["cat", *map(str, files)], stdout=subprocess.DEVNULL, check=True)
            times += 1
        return {"items_per_second": 2000 * times / (time.perf_counter() - begin)}

    def close(self):
        pass


def penstock(work):
    return lambda: Worker(PROGRAM, "serve", FOLDER, work)


def storage(work):
    return lambda: Worker(STORAGE, "serve", FOLDER, work)


def tfdata(work):
    return lambda: Worker(PYTHON, TFDATA, "--data", FOLDER, "--work", work, "--on-request", "--seconds", "1", "--warm", "0.3")


def match(work, ours, peer_name, peer, target, *more):
    return Match(ours, peer_name, peer, [Line(work, ITEMS, target), *more])


DECODE = "decode 331x331, shuffled, batches of 128"
ARRAYS = "arrays in memory, shuffled, batches of 128"
FAR = "shards in a store 50 ms away, decoded"
MATCHES = [
    match(DECODE, penstock("decode"), "libjpeg-turbo alone", penstock("libjpeg"), 0.9),
    match(DECODE, penstock("decode"), "tf.data", tfdata("decode_uint8"), 1.6,
          Line("peak memory, decode 331x331", MEMORY, 1.0)),
    match("the same, as float32 from 0 to 1", penstock("decode_float"), "tf.data", tfdata("decode_float"), 1.6),
    match("random crop, resized to 192x192", penstock("crop"), "tf.data", tfdata("random_crop_192"), 2.0),
    match("read and parse, checksums verified", penstock("parse"), "tf.data", tfdata("parse"), 3.0),
    match("read and parse, checksums verified", penstock("parse"), "cat > /dev/null", Cat, 0.5),
    match(ARRAYS, penstock("memory"), "tf.data", tfdata("arrays"), 5.0),
    match(ARRAYS, penstock("memory"), "tf.data, by gather", tfdata("arrays_gather"), 1.0),
    match(ARRAYS, penstock("memory"), "memcpy of rows, 1 thread", penstock("memcpy"), 0.5),
    match(FAR, storage("far"), "0 ms away", storage("near"), 0.9),
    match(FAR, storage("far"), "file after file", storage("one_by_one"), 30.0),
]
