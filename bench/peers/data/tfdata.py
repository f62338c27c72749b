"""tf.data with its best settings, on the shards of make_shards.py; one workload per process.

    tfdata.py --data SHARDS --work decode_uint8 [--rounds 3] [--on-request]    (rounds.py: the other options)

AUTOTUNE sets all parallelism, the order is nondeterministic, encoded records are shuffled instead of pixels, and the dataset
repeats indefinitely, so that no round has to refill a buffer.
"""
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import numpy as np
import tensorflow as tf

import rounds

A = tf.data.AUTOTUNE
FEATURES = {'image': tf.io.FixedLenFeature([], tf.string), 'class': tf.io.FixedLenFeature([], tf.int64)}
FULL, SMALL = 331, 192


def records(args, shuffle):
    ds = tf.data.TFRecordDataset(args.files, num_parallel_reads=A)
    return (ds.shuffle(args.shuffle) if shuffle else ds).repeat()


def images(args, decode):
    """Shuffled images, decoded one by one."""
    def parse(record):
        example = tf.io.parse_single_example(record, FEATURES)
        return decode(example['image']), example['class']
    return records(args, shuffle=True).map(parse, num_parallel_calls=A).batch(args.batch, num_parallel_calls=A)


def full_uint8(jpeg):
    return tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), [FULL, FULL, 3])


def full_float(jpeg):
    return tf.cast(full_uint8(jpeg), tf.float32) / 255.0


def to_small(pixels):
    pixels = tf.image.resize(pixels, [SMALL, SMALL])  # bilinear, float32
    return tf.cast(tf.round(pixels), tf.uint8)


def resized(jpeg):
    return to_small(full_uint8(jpeg))


def random_crop(jpeg):
    """Random resized crop; decodes only the crop."""
    whole = tf.reshape(tf.constant([0.0, 0.0, 1.0, 1.0]), [1, 1, 4])
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(jpeg), bounding_boxes=whole, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3))
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    return to_small(tf.io.decode_and_crop_jpeg(jpeg, window, channels=3))


def center_crop(jpeg):
    """Center crop of 7/8 of the height, as used for evaluation."""
    side = FULL * 7 // 8
    window = [(FULL - side) // 2, (FULL - side) // 2, side, side]
    return to_small(tf.io.decode_and_crop_jpeg(jpeg, window, channels=3))


def arrays():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (50000, 32, 32, 3), np.uint8), np.arange(50000, dtype=np.int64) % 10


def array_rows(args):
    return tf.data.Dataset.from_tensor_slices(arrays()).repeat().shuffle(2048).batch(args.batch, num_parallel_calls=A)


def array_gather(args):
    """Shuffles row indices and gathers whole batches, which is less obvious but faster."""
    x, y = (tf.constant(a) for a in arrays())
    ds = tf.data.Dataset.range(len(y)).repeat().shuffle(2048).batch(args.batch)
    return ds.map(lambda i: (tf.gather(x, i), tf.gather(y, i)), num_parallel_calls=A)


WORKS = {
    'raw': lambda args: records(args, shuffle=False).batch(args.batch),
    'parse': lambda args: records(args, shuffle=False).batch(args.batch).map(
        lambda r: tf.io.parse_example(r, FEATURES), num_parallel_calls=A),
    'decode_uint8': lambda args: images(args, full_uint8),
    'decode_float': lambda args: images(args, full_float),
    'resize_192': lambda args: images(args, resized),
    'random_crop_192': lambda args: images(args, random_crop),
    'center_crop_192': lambda args: images(args, center_crop),
    'arrays': array_rows,
    'arrays_gather': array_gather,
}


def rows(batch):
    return tf.nest.flatten(batch)[0].shape[0]


def main():
    args = rounds.options(WORKS, __doc__)

    def batches():
        options = tf.data.Options()
        options.deterministic = False
        options.threading.private_threadpool_size = args.threads
        return WORKS[args.work](args).prefetch(A).with_options(options)

    rounds.run(f'tf.data {tf.__version__}', args, batches, rows)


if __name__ == '__main__':
    main()
