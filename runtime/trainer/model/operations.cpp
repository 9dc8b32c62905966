// Owns the autograd side of the operations: what is saved, who computes which rows.
#include "runtime/trainer/model/operations.hpp"

#include "runtime/trainer/model/row_kernels.hpp"

namespace prime::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Enough rows for a thread to be worth waking, and the unit in which weight gradients are summed: a fixed block makes the sum the
/// same bits for any number of threads.
constexpr std::int64_t ROWS_PER_BLOCK = 128;

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    at::Tensor y = at::empty_like(x);
    at::Tensor r = at::empty({x.size(0)}, x.options());
    at::parallel_for(0, x.size(0), ROWS_PER_BLOCK, [&](std::int64_t begin, std::int64_t end) {
      rows::rms_norm({begin, end}, x.size(1), static_cast<float>(epsilon), x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                     y.mutable_data_ptr<float>(), r.mutable_data_ptr<float>());
    });
    context->save_for_backward({x, weight, r});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &r = saved[2];
    const at::Tensor grad_y = gradients[0].contiguous();
    const std::int64_t row_count = x.size(0), width = x.size(1);
    const std::int64_t blocks = (row_count + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK;
    at::Tensor grad_x = at::empty_like(x);
    at::Tensor partial = at::zeros({blocks, width}, x.options());
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const rows::Range range{block * ROWS_PER_BLOCK, std::min(row_count, (block + 1) * ROWS_PER_BLOCK)};
        rows::rms_norm_gradient(range, width, grad_y.const_data_ptr<float>(), x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                                r.const_data_ptr<float>(), grad_x.mutable_data_ptr<float>(),
                                partial.mutable_data_ptr<float>() + block * width);
      }
    });
    return {grad_x, partial.sum(0), {}};
  }
};

struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    const std::int64_t width = gate_up.size(1) / 2;
    const at::Tensor s = at::sigmoid(gate_up.narrow(1, 0, width)).contiguous();
    at::Tensor y = at::empty({gate_up.size(0), width}, gate_up.options());
    at::parallel_for(0, y.size(0), ROWS_PER_BLOCK, [&](std::int64_t begin, std::int64_t end) {
      rows::swiglu({begin, end}, width, gate_up.const_data_ptr<float>(), s.const_data_ptr<float>(), y.mutable_data_ptr<float>());
    });
    context->save_for_backward({gate_up, s});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate_up = saved[0], &s = saved[1];
    const at::Tensor grad_y = gradients[0].contiguous();
    at::Tensor grad_gate_up = at::empty_like(gate_up);
    at::parallel_for(0, s.size(0), ROWS_PER_BLOCK, [&](std::int64_t begin, std::int64_t end) {
      rows::swiglu_gradient({begin, end}, s.size(1), grad_y.const_data_ptr<float>(), gate_up.const_data_ptr<float>(),
                            s.const_data_ptr<float>(), grad_gate_up.mutable_data_ptr<float>());
    });
    return {grad_gate_up};
  }
};

/// Where one head of one token lies, on both sides of split_heads.
struct HeadWalk {
  const HeadLayout& layout;

  [[nodiscard]] std::int64_t row_width() const { return (layout.heads + 2 * layout.kv_heads) * layout.width; }
  [[nodiscard]] std::int64_t in_heads(std::int64_t window, std::int64_t head, std::int64_t time) const {
    return ((window * layout.heads + head) * layout.time + time) * layout.width;
  }

  /// Calls visit(offset in qkv, offset in the split tensor, which: 0 query, 1 key, 2 value, time, first visit of that piece of qkv).
  template <class Visit>
  void each(std::int64_t row, Visit&& visit) const {
    const std::int64_t window = row / layout.time, time = row % layout.time, group = layout.heads / layout.kv_heads;
    for (std::int64_t head = 0; head < layout.heads; ++head) {
      const std::int64_t kv = layout.heads + head / group;
      const bool first = head % group == 0;
      const std::int64_t split = in_heads(window, head, time);
      visit(row * row_width() + head * layout.width, split, 0, time, true);
      visit(row * row_width() + kv * layout.width, split, 1, time, first);
      visit(row * row_width() + (kv + layout.kv_heads) * layout.width, split, 2, time, first);
    }
  }
};

struct SplitHeads : torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const HeadLayout* layout) {
    context->saved_data["heads"] = at::IntArrayRef({layout->time, layout->heads, layout->kv_heads, layout->width});
    context->save_for_backward({layout->cosine, layout->sine});
    const std::int64_t windows = qkv.size(0) / layout->time;
    variable_list out;
    for (int i = 0; i < 3; ++i) out.push_back(at::empty({windows, layout->heads, layout->time, layout->width}, qkv.options()));
    const std::array<float*, 3> to{out[0].mutable_data_ptr<float>(), out[1].mutable_data_ptr<float>(), out[2].mutable_data_ptr<float>()};
    const float* from = qkv.const_data_ptr<float>();
    const float *cosine = layout->cosine.const_data_ptr<float>(), *sine = layout->sine.const_data_ptr<float>();
    const std::int64_t width = layout->width;
    at::parallel_for(0, qkv.size(0), ROWS_PER_BLOCK, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        HeadWalk{*layout}.each(row, [&](std::int64_t joined, std::int64_t split, std::size_t which, std::int64_t time, bool) {
          const std::int64_t angle = time * (width / 2);
          if (which == 2) {
            std::copy_n(from + joined, width, to[which] + split);
          } else {
            rows::rotate(width, 1.0F, cosine + angle, sine + angle, from + joined, to[which] + split, false);
          }
        });
      }
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto tables = context->get_saved_variables();
    const auto sizes = context->saved_data["heads"].toIntVector();
    const HeadLayout layout{sizes[0], sizes[1], sizes[2], sizes[3], tables[0], tables[1]};
    for (auto& gradient : gradients) gradient = gradient.contiguous();
    const std::int64_t row_count = gradients[0].size(0) * layout.time, width = layout.width;
    at::Tensor grad_qkv = at::empty({row_count, HeadWalk{layout}.row_width()}, gradients[0].options());
    const std::array<const float*, 3> from{gradients[0].const_data_ptr<float>(), gradients[1].const_data_ptr<float>(),
                                           gradients[2].const_data_ptr<float>()};
    float* to = grad_qkv.mutable_data_ptr<float>();
    const float *cosine = layout.cosine.const_data_ptr<float>(), *sine = layout.sine.const_data_ptr<float>();
    at::parallel_for(0, row_count, ROWS_PER_BLOCK, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        HeadWalk{layout}.each(row, [&](std::int64_t joined, std::int64_t split, std::size_t which, std::int64_t time, bool first) {
          const std::int64_t angle = time * (width / 2);
          if (which != 2) {
            rows::rotate(width, -1.0F, cosine + angle, sine + angle, from[which] + split, to + joined, !first);
          } else if (first) {
            std::copy_n(from[which] + split, width, to + joined);
          } else {
            for (std::int64_t i = 0; i < width; ++i) to[joined + i] += from[which][split + i];
          }
        });
      }
    });
    return {grad_qkv, {}};
  }
};

bool is_ours(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

}  // namespace

namespace composed {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, -1);
  return at::silu(parts[0]) * parts[1];
}

Heads split_heads(const at::Tensor& qkv, const HeadLayout& layout) {
  const std::int64_t heads = layout.heads, kv = layout.kv_heads, group = heads / kv;
  const at::Tensor all = qkv.view({-1, layout.time, heads + 2 * kv, layout.width});
  // A pair (a, b) becomes (a·cos − b·sin, b·cos + a·sin): all of it times cos, and its halves exchanged times (−sin, sin).
  const at::Tensor cosine = layout.cosine.narrow(0, 0, layout.time), sine = layout.sine.narrow(0, 0, layout.time);
  const at::Tensor along = at::cat({cosine, cosine}, -1).unsqueeze(1), across = at::cat({-sine, sine}, -1).unsqueeze(1);
  const at::Tensor asked = all.narrow(2, 0, heads + kv);
  const at::Tensor turned = at::addcmul(asked * along, at::roll(asked, layout.width / 2, -1), across);
  const auto by_head = [](const at::Tensor& x, std::int64_t copies) {
    const at::Tensor first = x.transpose(1, 2);
    return copies == 1 ? first : first.repeat_interleave(copies, 1);
  };
  return {by_head(turned.narrow(2, 0, heads), 1), by_head(turned.narrow(2, heads, kv), group),
          by_head(all.narrow(2, heads + kv, kv), group)};
}

}  // namespace composed

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return is_ours(x) ? RmsNorm::apply(x, weight, epsilon) : composed::rms_norm(x, weight, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate_up) { return is_ours(gate_up) ? Swiglu::apply(gate_up) : composed::swiglu(gate_up); }

Heads split_heads(const at::Tensor& qkv, const HeadLayout& layout) {
  if (!is_ours(qkv)) return composed::split_heads(qkv, layout);
  auto parts = SplitHeads::apply(qkv, &layout);
  return {std::move(parts[0]), std::move(parts[1]), std::move(parts[2])};
}

}  // namespace prime::trainer
