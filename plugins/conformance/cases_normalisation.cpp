// Conformance cases of batch, layer and root mean square normalisation.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

constexpr double kEpsilon = 1e-5;
// Operands that forward and backward operation share.
const Values kX{-2.0, 3.0, 11};
const Values kGamma{0.5, 1.5, 12};

// Adds gamma, beta, running mean and running variance.
Builder& vectors(Builder& b, const Dims& c) {
  return b.wide_in(c, kGamma).wide_in(c).wide_in(c).wide_in(c, Values{0.5, 2.0});
}

Builder batch_norm(rt_dtype dtype, const Dims& x) {
  const Dims c = {x.back()};
  Builder b(RT_OP_BATCH_NORM, dtype, label(x));
  vectors(b.in(x, kX), c).out(x).wide_out(c).wide_out(c);
  return b.number(RT_ATTR_EPSILON, kEpsilon).number(RT_ATTR_MOMENTUM, 0.2);
}

Builder batch_norm_inference(rt_dtype dtype, const Dims& x) {
  const Dims c = {x.back()};
  Builder b(RT_OP_BATCH_NORM_INFERENCE, dtype, label(x));
  vectors(b.in(x, kX), c).out(x);
  return b.number(RT_ATTR_EPSILON, kEpsilon);
}

Builder layer_norm(rt_dtype dtype, const Dims& x) {
  const Dims d = {x.back()};
  Builder b(RT_OP_LAYER_NORM, dtype, label(x));
  return b.in(x, kX).wide_in(d, kGamma).wide_in(d).out(x).number(RT_ATTR_EPSILON, kEpsilon);
}

Builder rms_norm(rt_dtype dtype, const Dims& x) {
  Builder b(RT_OP_RMS_NORM, dtype, label(x));
  return b.in(x, kX).wide_in({x.back()}, kGamma).out(x).number(RT_ATTR_EPSILON, kEpsilon);
}

// `vectors`: of learned numbers, whose gradients follow dx.
Builder backward(const char* op, rt_dtype dtype, const Dims& x, const Case& forward,
                 int vectors = 2) {
  const Dims d = {x.back()};
  Builder b(op, dtype, label(x));
  b.in(x, Values{-1.0, 1.0, 13}).in(x, kX).wide_in(d, kGamma).out(x).wide_out(d);
  if (vectors > 1) b.wide_out(d);
  return b.number(RT_ATTR_EPSILON, kEpsilon).forward(forward);
}

}  // namespace

void add_normalisation(Cases& cases, rt_dtype dtype) {
  for (const Dims& x : {Dims{6, 5}, Dims{64, 50}, Dims{2, 5, 7, 3}, Dims{3, 4, 4, 64},
                        Dims{2, 3, 20}, Dims{1, 3, 3, 1}, Dims{700, 64}, Dims{150, 264}}) {
    const Builder forward = batch_norm(dtype, x);
    cases.push_back(forward);
    cases.push_back(backward(RT_OP_BATCH_NORM_BACKWARD, dtype, x, forward));
    cases.push_back(batch_norm_inference(dtype, x));
  }
  const Dims image = {2, 4, 4, 16};
  cases.push_back(batch_norm(dtype, image).rename("relu").activation(RT_ACTIVATION_RELU));
  cases.push_back(
      batch_norm(dtype, image).rename("residual relu").residual().activation(RT_ACTIVATION_RELU));
  cases.push_back(batch_norm_inference(dtype, image)
                      .rename("residual relu")
                      .residual()
                      .activation(RT_ACTIVATION_RELU));
  // Rows of many lengths, since a backend may hold a row in registers; 768 and 1600 are those of
  // GPT-2.
  for (const Dims& x :
       {Dims{6, 5}, Dims{4, 128}, Dims{2, 3, 50}, Dims{7}, Dims{2, 3, 3, 20}, Dims{37, 768},
        Dims{3, 1600}, Dims{5, 400}, Dims{2, 4104}, Dims{2, 20000}}) {
    const Builder forward = layer_norm(dtype, x);
    cases.push_back(forward);
    cases.push_back(backward(RT_OP_LAYER_NORM_BACKWARD, dtype, x, forward));
    const Builder root = rms_norm(dtype, x);
    cases.push_back(root);
    cases.push_back(backward(RT_OP_RMS_NORM_BACKWARD, dtype, x, root, 1));
  }
  for (const Dims& x : {Dims{5, 20}, Dims{20, 768}, Dims{3, 50}}) {
    for (const Builder& plain :
         {backward(RT_OP_LAYER_NORM_BACKWARD, dtype, x, layer_norm(dtype, x)),
          backward(RT_OP_RMS_NORM_BACKWARD, dtype, x, rms_norm(dtype, x), 1)}) {
      cases.push_back(Builder(plain).rename("residual").residual());
      cases.push_back(
          Builder(plain).rename("residual relu").residual().activation(RT_ACTIVATION_RELU));
    }
  }
}

}  // namespace plugins::conformance
