"""WebDataset with tar files (its own format, converted from the shards to --scratch on first use) and Pillow for JPEGs.

Runs in one process; the worker processes of PyTorch's DataLoader, for which it is designed, are not measured.
"""
import importlib.metadata
import io
import os
import tarfile

import numpy as np
from PIL import Image
import webdataset as wds

import rounds
import tfrecords


def tars(args):
    folder = args.scratch or os.path.join(args.data, 'webdataset')
    os.makedirs(folder, exist_ok=True)
    made = []
    for shard in args.files:
        made.append(os.path.join(folder, os.path.basename(shard) + '.tar'))
        if os.path.exists(made[-1]):
            continue
        with tarfile.open(made[-1] + '.part', 'w') as tar:
            for i, record in enumerate(tfrecords.records(shard)):
                image, label = tfrecords.image_and_class(record)
                for name, data in ((f'{i:06d}.jpg', image), (f'{i:06d}.cls', str(label).encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        os.replace(made[-1] + '.part', made[-1])
    return made


def decode(sample):
    return np.asarray(Image.open(io.BytesIO(sample['jpg'])).convert('RGB')), int(sample['cls'])


def resize(sample):
    picture = Image.open(io.BytesIO(sample['jpg'])).convert('RGB')
    return np.asarray(picture.resize((192, 192), Image.Resampling.BILINEAR)), int(sample['cls'])


WORKS = {'raw': lambda sample: (sample['jpg'], sample['cls']), 'decode_uint8': decode, 'resize_192': resize}


def main():
    args = rounds.options(WORKS, __doc__)

    def batches():
        data = wds.WebDataset(tars(args), resampled=True, shardshuffle=False)
        if args.work != 'raw':
            data = data.shuffle(args.shuffle)
        data = data.map(WORKS[args.work])
        return data.batched(args.batch) if args.work != 'raw' else data.batched(args.batch, collation_fn=list)

    rounds.run(f'webdataset {importlib.metadata.version("webdataset")}', args, batches,
               lambda batch: len(batch) if isinstance(batch, list) and len(batch) > 2 else len(batch[0]))


if __name__ == '__main__':
    main()
