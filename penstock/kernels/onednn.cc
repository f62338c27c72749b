#include "penstock/kernels/onednn.h"

#include <utility>

#include "penstock/kernels/scratch.h"

namespace penstock::kernels {

using dnnl::memory;

dnnl::engine& Engine() {
  static auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type TypeOf(base::DType dtype) {
  return dtype == base::DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void Execute(const CachedPrimitive& cached, std::unordered_map<int, memory> arguments) {
  const Scratch scratch(cached.scratch_bytes);
  arguments[DNNL_ARG_SCRATCHPAD] = memory(
      {{static_cast<int64_t>(cached.scratch_bytes)}, memory::data_type::u8, memory::format_tag::a},
      Engine(), scratch.data());
  dnnl::stream stream(Engine());
  cached.primitive.execute(stream, arguments);
  stream.wait();
}

void Reorder(const memory::desc& from_desc, void* from, const memory::desc& to_desc, void* to) {
  memory source(from_desc, Engine(), from), destination(to_desc, Engine(), to);
  dnnl::stream stream(Engine());
  dnnl::reorder(source, destination).execute(stream, source, destination);
  stream.wait();
}

}  // namespace penstock::kernels
