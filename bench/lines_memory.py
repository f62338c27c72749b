"""What each part of the memory strategy gains in training on this machine's processor (docs/design/runtime.md, "Memory of a CPU
device"): the whole strategy beside the same program without one part. A part that gains less than 3 % everywhere is to be
removed."""
from lines_train import IRIS, MOBILENET, RESNET20, RESNET20_BF16, SHARDS
from side_by_side import IMAGES, MEMORY, ROOT, STEPS, Line, Match, Worker, build, make_folder, run, say

FOLDER = ROOT / "build" / "release" / "bench"
NETWORKS = [("resnet20", RESNET20, IMAGES), ("resnet20_bf16", RESNET20_BF16, IMAGES), ("mobilenet_v2", MOBILENET, IMAGES),
            ("iris_1", IRIS + "K = 1", STEPS)]
BAR = 1.03


def set_up():
    say("looking for what is needed (tools/setup)")
    run("tools/setup", "bench")
    build("bench_train", "bench_train_glibc", "bench_train_tcmalloc")
    make_folder(SHARDS, FOLDER / "bench_train")


def trained(work, program="bench_train", without=None):
    return lambda: Worker(FOLDER / program, "serve", work, SHARDS, env={"BENCH_WITHOUT": without} if without else None)


def matches(peer_name, **without):
    for work, title, reading in NETWORKS:
        yield Match(trained(work), peer_name, trained(work, **without),
                    [Line(title, reading, BAR), Line(f"{title}: peak memory", MEMORY, 0.8)])


MATCHES = [
    *matches("glibc's malloc", program="bench_train_glibc"),
    *matches("tcmalloc without LargeBlocks", program="bench_train_tcmalloc"),
    *matches("without huge pages", without="huge_pages"),
    *matches("kernels without kept scratch memory", without="scratch"),
]
