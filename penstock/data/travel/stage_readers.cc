#include "penstock/data/travel/stage_readers.h"

namespace penstock::data {

#define PENSTOCK_STAGE(name) \
  absl::StatusOr<Dataset> Read##name(StageFields& in, std::vector<Dataset> inputs)
PENSTOCK_STAGE(Batch);
PENSTOCK_STAGE(Cache);
PENSTOCK_STAGE(Concatenate);
PENSTOCK_STAGE(DecodeImage);
PENSTOCK_STAGE(Enumerate);
PENSTOCK_STAGE(FromCsv);
PENSTOCK_STAGE(FromFiles);
PENSTOCK_STAGE(FromImageFolder);
PENSTOCK_STAGE(FromNpy);
PENSTOCK_STAGE(FromSnapshot);
PENSTOCK_STAGE(FromText);
PENSTOCK_STAGE(FromTfRecords);
PENSTOCK_STAGE(IgnoreErrors);
PENSTOCK_STAGE(PaddedBatch);
PENSTOCK_STAGE(ParseExample);
PENSTOCK_STAGE(Prefetch);
PENSTOCK_STAGE(Random);
PENSTOCK_STAGE(RandomSeed);
PENSTOCK_STAGE(Range);
PENSTOCK_STAGE(Rebatch);
PENSTOCK_STAGE(Repeat);
PENSTOCK_STAGE(RowNumbers);
PENSTOCK_STAGE(Sample);
PENSTOCK_STAGE(Shard);
PENSTOCK_STAGE(Shuffle);
PENSTOCK_STAGE(Skip);
PENSTOCK_STAGE(Snapshot);
PENSTOCK_STAGE(Take);
PENSTOCK_STAGE(Unbatch);
PENSTOCK_STAGE(UploadedRows);
PENSTOCK_STAGE(Window);
PENSTOCK_STAGE(Zip);
#undef PENSTOCK_STAGE

const StageReader* FindStageReader(absl::string_view stage) {
  static constexpr StageReader kReaders[] = {
      {"Batch", 1, &ReadBatch},
      {"Cache", 1, &ReadCache},
      {"Concatenate", 2, &ReadConcatenate},
      {"DecodeImage", 1, &ReadDecodeImage},
      {"Enumerate", 1, &ReadEnumerate},
      {"FromCsv", 0, &ReadFromCsv},
      {"FromFiles", 0, &ReadFromFiles},
      {"FromImageFolder", 0, &ReadFromImageFolder},
      {"FromNpy", 0, &ReadFromNpy},
      {"FromSnapshot", 0, &ReadFromSnapshot},
      {"FromText", 0, &ReadFromText},
      {"FromTfRecords", 0, &ReadFromTfRecords},
      {"IgnoreErrors", 1, &ReadIgnoreErrors},
      {"PaddedBatch", 1, &ReadPaddedBatch},
      {"ParseExample", 1, &ReadParseExample},
      {"Prefetch", 1, &ReadPrefetch},
      {"Random", 0, &ReadRandom},
      {"RandomSeed", 1, &ReadRandomSeed},
      {"Range", 0, &ReadRange},
      {"Rebatch", 1, &ReadRebatch},
      {"Repeat", 1, &ReadRepeat},
      {"RowNumbers", 0, &ReadRowNumbers},
      {"Sample", StageReader::kSeveral, &ReadSample},
      {"Shard", 1, &ReadShard},
      {"Shuffle", 1, &ReadShuffle},
      {"Skip", 1, &ReadSkip},
      {"Snapshot", 1, &ReadSnapshot},
      {"Take", 1, &ReadTake},
      {"Unbatch", 1, &ReadUnbatch},
      {"UploadedRows", 0, &ReadUploadedRows},
      {"Window", 1, &ReadWindow},
      {"Zip", StageReader::kSeveral, &ReadZip},
  };
  for (const StageReader& reader : kReaders) {
    if (reader.stage == stage) return &reader;
  }
  return nullptr;
}

}  // namespace penstock::data
