// Hooks: functions that are called with a tensor's gradient (Tensor::register_hook), or before and
// after a module's forward (Module::register_forward_pre_hook, register_forward_hook).
//
//   h = layer(x);
//   h.register_hook([](const Tensor& grad) { return grad.clamp(-1, 1); });   // replaces it
//   auto handle = weight.register_hook([&](const Tensor& grad) { seen = grad; });
//   loss.backward();
//   handle.remove();
//
// Hooks of a tensor are called by backward() and autograd::grad, in order of registration, when the
// gradient with respect to the tensor is known and before it goes on; those of leaves after all
// others, before the gradient is added to the leaf's grad. They may record operations and read
// values; gradients are off unless create_graph. xm::mark_step within one is an error, and so is an
// exception: backward() then changes no leaf. As in PyTorch 2, a hook stays when its tensor is
// destroyed or ends up in an executed step, and the gradients that autograd::grad returns and those
// of retain_grad() are what the hooks returned.
//
// A hook must not own its tensor (capture it by value): both would live forever.
//
// Hooks are functions of the program, called as it records: a loop that registers and calls the
// same hooks in each step records the same program, and compiles it once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::lazy {

// Removes a hook, at most once; a handle that is destroyed does not.
class RemovableHandle {
 public:
  RemovableHandle() = default;
  explicit RemovableHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_ != nullptr) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

namespace internal {

// Hooks in order of registration. Internal to the room.
template <typename Hook>
class HookList {
 public:
  RemovableHandle Add(Hook hook) {
    const int64_t id = hooks_->next++;
    hooks_->list.emplace_back(id, std::move(hook));
    return RemovableHandle([entries = std::weak_ptr<Entries>(hooks_), id] {
      if (const auto all = entries.lock()) {
        std::erase_if(all->list, [id](const auto& entry) { return entry.first == id; });
      }
    });
  }
  bool empty() const { return hooks_->list.empty(); }
  // Copies: a hook may add or remove hooks.
  std::vector<Hook> hooks() const {
    std::vector<Hook> copies;
    for (const auto& [id, hook] : hooks_->list) copies.push_back(hook);
    return copies;
  }

 private:
  struct Entries {
    int64_t next = 0;
    std::vector<std::pair<int64_t, Hook>> list;
  };
  std::shared_ptr<Entries> hooks_ = std::make_shared<Entries>();
};

}  // namespace internal
}  // namespace penstock::lazy
