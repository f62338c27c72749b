// Storage service emulators for tests: HTTP servers on a random loopback port, started on first use
// and stopped when the test program ends. They are programs in third_party/unpacked/bin; if one is
// missing, the error says how to install it, and the test must fail.
//
//   ASSERT_OK_AND_ASSIGN(Emulator * gcs, Emulator::Gcs());
//   ASSERT_OK_AND_ASSIGN(std::string bucket, gcs->MakeBucket(*fs));
//   EXPECT_OK(WriteFile(*fs, JoinPath(bucket, "x"), "bytes"));  // gs://anonymous@bucket-0/x?...
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

  // Creates an empty bucket and returns its URI; `fs` must serve gs:// or s3://.
  absl::StatusOr<std::string> MakeBucket(FileSystem& fs);
  // URI of a bucket, which need not exist, with the options that select this emulator.
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
