// Storage services on this machine, for tests: real HTTP servers on a loopback port of their own,
// started once per test program when a test first asks, ended with it. They are programs in
// third_party/unpacked/bin; where one is missing, the error says how to get it, and a test must
// fail.
//
//   ASSERT_OK_AND_ASSIGN(Emulator * gcs, Emulator::Gcs());
//   ASSERT_OK_AND_ASSIGN(std::string bucket, gcs->MakeBucket(*fs));     //
//   "gs://anonymous@bucket-0?..."
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include <sys/types.h>

#include "penstock/io/file_system.h"

namespace penstock::io {

class Emulator {
 public:
  static absl::StatusOr<Emulator*> Gcs();
  static absl::StatusOr<Emulator*> S3();
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // The URI of a new, empty bucket; `fs` must serve gs:// or s3://.
  absl::StatusOr<std::string> MakeBucket(FileSystem& fs);
  // The URI of a bucket, which need not exist, with the options that lead here.
  std::string BucketUri(absl::string_view bucket) const;
  int port() const { return port_; }

 private:
  struct Kind;
  static const Kind kGcs;
  static const Kind kS3;

  Emulator(const Kind& kind, int port, pid_t process)
      : kind_(kind), port_(port), process_(process) {}
  static absl::StatusOr<std::unique_ptr<Emulator>> Start(const Kind& kind);
  static absl::StatusOr<Emulator*> Get(const absl::StatusOr<std::unique_ptr<Emulator>>& started);

  const Kind& kind_;
  const int port_;
  const pid_t process_;
  std::atomic<int> buckets_ = 0;
};

}  // namespace penstock::io
