// Both sides of gRPC alone (the C++ API with byte buffers and one thread a side): no frames, no checksums,
// nothing kept for a reconnect. What the links of room remote are measured beside.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>

namespace penstock::remote {

// Accepts one stream; echoes messages of fewer than 4096 bytes, drops the others.
class BareServer {
 public:
  BareServer();
  ~BareServer();
  int port() const { return port_; }

 private:
  bool Next();
  void Serve();

  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

class BareClient {
 public:
  explicit BareClient(int port);
  ~BareClient();

  // Each returns seconds: 256 MiB in messages of 1 MiB, until the server has taken them all; a smallest
  // message and its echo; the same, `count` of them, one behind the other, each.
  double Upload();
  double Trip();
  double Pipelined(int count);

 private:
  void Next();

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::vector<char> memory_;
  grpc::ByteBuffer small_;
};

}  // namespace penstock::remote
