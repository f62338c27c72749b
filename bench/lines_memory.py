"""Lines of `bench/run memory`: the gain of each part of the memory strategy for training on this machine's CPU
(docs/design/runtime.md, "Memory of a CPU device"), as the whole strategy beside the same program without one part. A part that
gains less than 3 % everywhere is removed."""
from lines_train import IRIS, MOBILENET, RESNET20, RESNET20_BF16, SHARDS
from side_by_side import IMAGES, MEMORY, ROOT, STEPS, Line, Match, Worker, build, make_folder, run, say

FOLDER = ROOT / "build" / "release" / "bench"
NETWORKS = [("resnet20", RESNET20, IMAGES), ("resnet20_bf16", RESNET20_BF16, IMAGES), ("mobilenet_v2", MOBILENET, IMAGES),
            ("iris_1", IRIS + "K = 1", STEPS)]
GAIN = 1.03
NO_LOSS = 0.95


def set_up():
    say("installing what is missing (tools/setup)")
    run("tools/setup", "bench")
    build("bench_train", "bench_train_glibc", "bench_train_tcmalloc")
    make_folder(SHARDS, FOLDER / "bench_train")


def trained(work, program="bench_train"):
    return lambda: Worker(FOLDER / program, "serve", work, SHARDS)


def matches(peer_name, program, faster=(), smaller=()):
    """faster, smaller: the works in which the part has to gain time, or memory."""
    for work, title, reading in NETWORKS:
        yield Match(trained(work), peer_name, trained(work, program),
                    [Line(title, reading, GAIN if work in faster else NO_LOSS),
                     Line(f"{title}: peak memory", MEMORY, GAIN if work in smaller else NO_LOSS)])


MATCHES = [
    *matches("glibc's malloc", "bench_train_glibc", faster=[work for work, _, _ in NETWORKS]),
    *matches("tcmalloc without LargeBlocks", "bench_train_tcmalloc", smaller=["resnet20_bf16", "mobilenet_v2"]),
]
