// Donated arguments of an execution: each is marked as donated before the execution begins, so that no other
// one can use its memory, and is live again if the execution does not begin. Every client's Execute checks by this.
//
//   DonationClaims<PjrtBuffer> claims;
//   PENSTOCK_RETURN_IF_ERROR(claims.Claim(*program_, donation_, arguments));
//   ... begin the execution
//   claims.Keep();
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {

// Indices of a program's parameters, in order: those that are donated, and the others.
struct ParameterUses {
  explicit ParameterUses(const ir::Program& program);
  std::vector<size_t> donated, kept;
};

// Errors for an argument whose buffer was claimed by this execution already, as its donated argument number `at`
// (replica by replica): it is donated twice, or also used as an argument that is not donated.
absl::Status DonatedTwiceError(const ir::Program& program, const ParameterUses& uses,
                               size_t replica, size_t parameter, size_t at);
absl::Status DonatedAndKeptError(const ir::Program& program, const ParameterUses& uses,
                                 size_t replica, size_t parameter, size_t at);

// `BufferT`: the client's implementation of BufferImpl, with
//   bool ClaimForDonation();            marks it as donated; false if it was
//   void ReleaseClaim();                undoes that
//   bool donated() const;
//   absl::Status CheckLive() const;     FAILED_PRECONDITION if it was donated
template <typename BufferT>
class DonationClaims {
 public:
  DonationClaims() = default;
  // Undoes the claims, unless Keep was called.
  ~DonationClaims() {
    if (keep_) return;
    for (BufferT* buffer : buffers_) buffer->ReleaseClaim();
  }
  DonationClaims(const DonationClaims&) = delete;
  DonationClaims& operator=(const DonationClaims&) = delete;

  // arguments[replica][parameter], all of them BufferT. FAILED_PRECONDITION: one was donated to an earlier
  // execution; INVALID_ARGUMENT: a buffer is donated here and used a second time.
  absl::Status Claim(const ir::Program& program, const ParameterUses& uses,
                     absl::Span<const Buffers> arguments) {
    PENSTOCK_RETURN_IF_ERROR(ClaimDonated(program, uses, arguments));
    return CheckKept(program, uses, arguments);
  }
  // The execution has begun.
  void Keep() { keep_ = true; }

  absl::Span<BufferT* const> buffers() const { return buffers_; }

 private:
  absl::Status ClaimDonated(const ir::Program& program, const ParameterUses& uses,
                            absl::Span<const Buffers> arguments) {
    buffers_.reserve(arguments.size() * uses.donated.size());
    for (size_t replica = 0; replica < arguments.size(); ++replica) {
      for (const size_t i : uses.donated) {
        auto* const buffer = static_cast<BufferT*>(arguments[replica][i].impl().get());
        if (buffer->ClaimForDonation()) {
          buffers_.push_back(buffer);
          continue;
        }
        const size_t at = PlaceOf(buffer);
        if (at < buffers_.size()) return DonatedTwiceError(program, uses, replica, i, at);
        return base::WithContext(buffer->CheckLive(), ParameterName(program, replica, i));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckKept(const ir::Program& program, const ParameterUses& uses,
                         absl::Span<const Buffers> arguments) const {
    for (size_t replica = 0; replica < arguments.size(); ++replica) {
      for (const size_t i : uses.kept) {
        const auto* const buffer = static_cast<const BufferT*>(arguments[replica][i].impl().get());
        if (!buffer->donated()) continue;
        const size_t at = PlaceOf(buffer);
        if (at < buffers_.size()) return DonatedAndKeptError(program, uses, replica, i, at);
        return base::WithContext(buffer->CheckLive(), ParameterName(program, replica, i));
      }
    }
    return absl::OkStatus();
  }

  size_t PlaceOf(const BufferT* buffer) const {
    return static_cast<size_t>(std::find(buffers_.begin(), buffers_.end(), buffer) -
                               buffers_.begin());
  }

  std::vector<BufferT*> buffers_;  // replica by replica, in the order of ParameterUses::donated
  bool keep_ = false;
};

}  // namespace penstock::runtime
