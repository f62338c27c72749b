"""Writes the shards that all peers read: JPEGs of 331x331 (quality 90) with random crops of photographs.

    make_shards.py OUT [--photos FOLDER] [--shards 8] [--per-shard 250]

The same arguments give the same bytes. Without --photos it generates images of waves, edges and noise with about as many bits
per pixel as photographs. Records are tf.train.Examples with the features `image` (bytes) and `class` (int64), which
`penstock pack` writes, too.
"""
import argparse
import glob
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf

SIZE = 331


def picture(rng, height=480, width=640):
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = np.full((height, width, 3), 128, np.float32)
    for channel in range(3):
        for _ in range(12):
            fx, fy, phase = rng.uniform(0.002, 0.15), rng.uniform(0.002, 0.15), rng.uniform(0, 6.28)
            image[..., channel] += rng.uniform(4, 16) * np.sin(fx * x + fy * y + phase)
    for _ in range(60):
        top, left = rng.integers(0, height), rng.integers(0, width)
        image[top:top + rng.integers(5, 120), left:left + rng.integers(5, 120)] += rng.uniform(-50, 50, 3)
    image += rng.normal(0, 6, (height, width, 1))
    return np.clip(image, 0, 255).astype(np.uint8)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('out')
    p.add_argument('--photos', help='folder of .jpg files of at least 331x331 pixels')
    p.add_argument('--shards', type=int, default=8)
    p.add_argument('--per-shard', type=int, default=250)
    args = p.parse_args()

    rng = np.random.default_rng(0)
    if args.photos:
        names = sorted(glob.glob(os.path.join(args.photos, '*.jpg')))
        photos = [tf.io.decode_jpeg(tf.io.read_file(name), channels=3).numpy() for name in names]
        photos = [photo for photo in photos if min(photo.shape[:2]) >= SIZE]
        if not photos:
            p.error(f'{args.photos} has no .jpg file of at least {SIZE}x{SIZE} pixels')
    else:
        photos = [picture(rng) for _ in range(8)]

    os.makedirs(args.out, exist_ok=True)
    total = 0
    for shard in range(args.shards):
        path = os.path.join(args.out, f'{shard:02d}-{args.per_shard}.tfrec')
        with tf.io.TFRecordWriter(path + '.part') as writer:
            for i in range(args.per_shard):
                photo = photos[i % len(photos)]
                y = rng.integers(0, photo.shape[0] - SIZE + 1)
                x = rng.integers(0, photo.shape[1] - SIZE + 1)
                jpeg = tf.io.encode_jpeg(photo[y:y + SIZE, x:x + SIZE], quality=90).numpy()
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    'image': tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
                    'class': tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 5])),
                })).SerializeToString())
        os.replace(path + '.part', path)
        total += os.path.getsize(path)
    records = args.shards * args.per_shard
    print(f'{args.out}: {args.shards} shards, {records} images, {total / 1e6:.1f} MB, '
          f'{8 * total / records / SIZE**2:.1f} bits per pixel')


if __name__ == '__main__':
    main()
