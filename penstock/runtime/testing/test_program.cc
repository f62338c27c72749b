#include "penstock/runtime/testing/test_program.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::runtime {
namespace {

std::string Types(const std::vector<TensorType>& types) {
  return absl::StrJoin(
      types, ", ", [](std::string* out, const TensorType& type) { out->append(MlirType(type)); });
}

std::string Parameter(const TestProgram& program, size_t i) {
  std::string out = absl::StrCat("%p", i, ": ", MlirType(program.parameters[i]));
  if (i < program.alias.size() && program.alias[i] >= 0) {
    absl::StrAppend(&out, " {tf.aliasing_output = ", program.alias[i], " : i32}");
  }
  return out;
}

}  // namespace

std::string MlirType(const TensorType& type) {
  std::string out = "tensor<";
  for (int64_t extent : type.shape) absl::StrAppend(&out, extent, "x");
  return absl::StrCat(out, base::DTypeStableHlo(type.dtype), ">");
}

ir::Program Print(const TestProgram& in) {
  ir::Program out;
  out.name = in.name;
  out.num_replicas = in.num_replicas;
  out.parameters = in.parameters;
  out.results = in.results;
  out.alias = in.alias;
  std::vector<std::string> parameters;
  for (size_t i = 0; i < in.parameters.size(); ++i) {
    out.parameter_names.push_back(absl::StrCat("p", i));
    parameters.push_back(Parameter(in, i));
  }
  for (size_t i = 0; i < in.results.size(); ++i) out.result_names.push_back(absl::StrCat("r", i));

  const auto line = [&](const std::string& text, ir::Origin origin = {}) {
    absl::StrAppend(&out.text, text, "\n");
    out.line_origins.push_back(std::move(origin));
  };
  line(absl::StrCat("module @", in.name, " attributes {mhlo.num_partitions = 1 : i32, ",
                    "mhlo.num_replicas = ", in.num_replicas, " : i32} {"));
  line(absl::StrCat("  func.func public @main(", absl::StrJoin(parameters, ", "), ") -> (",
                    Types(in.results), ") {"));
  for (size_t i = 0; i < in.body.size(); ++i) {
    line(absl::StrCat("    ", in.body[i]),
         {absl::StrCat("layer", i), "model.cc", 10 + static_cast<int>(i)});
  }
  line(absl::StrCat("    return ", absl::StrJoin(in.returns, ", "), in.results.empty() ? "" : " : ",
                    Types(in.results)));
  line("  }");
  line("}");
  return out;
}

}  // namespace penstock::runtime
