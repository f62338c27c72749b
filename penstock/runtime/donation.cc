#include "penstock/runtime/donation.h"

#include "absl/strings/str_cat.h"

namespace penstock::runtime {

ParameterUses::ParameterUses(const ir::Program& program) {
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const bool is_donated = i < program.alias.size() && program.alias[i] >= 0;
    (is_donated ? donated : kept).push_back(i);
  }
}

absl::Status DonatedTwiceError(const ir::Program& program, const ParameterUses& uses,
                               size_t replica, size_t parameter, size_t at) {
  const size_t count = uses.donated.size();
  return absl::InvalidArgumentError(absl::StrCat(
      ParameterName(program, replica, parameter), ": the buffer is donated twice, also as ",
      ParameterName(program, at / count, uses.donated[at % count]),
      "; use a separate buffer for each parameter"));
}

absl::Status DonatedAndKeptError(const ir::Program& program, const ParameterUses& uses,
                                 size_t replica, size_t parameter, size_t at) {
  return absl::InvalidArgumentError(absl::StrCat(
      ParameterName(program, replica, parameter), ": the same buffer is donated as parameter ",
      uses.donated[at % uses.donated.size()], "; a donated buffer cannot be another argument"));
}

}  // namespace penstock::runtime
