// Builds small steps, and cuts and unrolls them for one rank of a pipeline.
#include "tests/runtime/parallel/pipeline_step.h"

#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"

namespace runtime::parallel {

namespace {

class StepBuilder {
 public:
  StepBuilder(Net net, int64_t batch, double share) : batch_(batch), build_(step_.graph) {
    step_.inputs.weight = input("weight", {batch});
    net == Net::kMlp ? mlp(share) : net == Net::kConv ? conv() : norm();
  }

  Step forward() { return std::move(step_); }
  Step with_gradients() {
    step_.one = value("one", graph::ValueKind::kState, {1});
    step_.gradients = graph::differentiate(step_.graph, step_.loss, step_.one, step_.parameters);
    return std::move(step_);
  }

 private:
  graph::ValueId value(const std::string& name, graph::ValueKind kind, graph::Dims dims,
                       rt_dtype dtype = RT_FLOAT64) {
    graph::Value v;
    v.name = name;
    v.kind = kind;
    v.dtype = dtype;
    v.dims = std::move(dims);
    return step_.graph.add_value(std::move(v));
  }

  graph::ValueId input(const std::string& name, graph::Dims dims, rt_dtype dtype = RT_FLOAT64) {
    return value(name, graph::ValueKind::kInput, std::move(dims), dtype);
  }

  graph::ValueId parameter(const std::string& name, graph::Dims dims) {
    step_.parameters.push_back(value(name, graph::ValueKind::kParameter, std::move(dims)));
    return step_.parameters.back();
  }

  graph::ValueId linear(graph::ValueId x, graph::ValueId w, const std::string& name) {
    build_.layer = name;
    const int64_t rows = step_.graph.value(w).dims[0];
    const graph::ValueId b = parameter(name + ".bias", {rows});
    return build_.add(build_.matmul(x, w, false, true), b);
  }

  graph::ValueId conv(graph::ValueId x, int64_t from, int64_t to, const std::string& name) {
    build_.layer = name;
    graph::Convolution c;
    c.padding = {1, 1, 1, 1};
    const graph::ValueId y = build_.conv2d(x, parameter(name + ".weight", {to, 3, 3, from}), c);
    return build_.add(y, parameter(name + ".bias", {to}));
  }

  graph::ValueId tanh(graph::ValueId x) { return build_.activation(x, RT_ACTIVATION_TANH); }

  void mlp(double share) {
    graph::ValueId x = step_.inputs.features = input("features", {batch_, 5});
    const graph::ValueId first = parameter("fc0.weight", {6, 5}), tied = parameter("tied", {6, 6});
    for (int i = 0; i < 7; ++i) {
      const std::string name = "fc" + std::to_string(i);
      const bool shares = i == 1 || i == 6;
      const graph::ValueId w = i == 0 ? first : shares ? tied : parameter(name + ".weight", {6, 6});
      x = tanh(linear(x, w, name));
    }
    x = linear(x, parameter("fc7.weight", {3, 6}), "fc7");
    build_.layer = "loss";
    step_.inputs.target = input("target", {batch_, 3});
    step_.loss = build_.mean_squared_error(x, step_.inputs.target, step_.inputs.weight);
    step_.loss = build_.add(step_.loss, build_.scale(build_.square_sum(first), 0.1 * share));
    finish();
  }

  void conv() {
    graph::ValueId x = step_.inputs.features = input("features", {batch_, 5, 5, 2});
    const graph::ValueId skipped = x = tanh(conv(x, 2, 3, "conv0"));
    x = tanh(conv(x, 3, 3, "conv1"));
    x = tanh(conv(x, 3, 3, "conv2"));
    x = tanh(conv(x, 3, 3, "conv3"));
    build_.layer = "residual";
    x = build_.add(x, skipped);
    x = tanh(conv(x, 3, 4, "conv4"));
    classify(x);
  }

  graph::ValueId batch_norm(graph::ValueId x, const std::string& name, bool in_parts) {
    build_.layer = name;
    const int64_t channels = step_.graph.value(x).dims.back();
    const graph::ValueId gamma = parameter(name + ".weight", {channels}),
                         beta = parameter(name + ".bias", {channels}),
                         mean = value(name + ".mean", graph::ValueKind::kState, {channels}),
                         var = value(name + ".var", graph::ValueKind::kState, {channels});
    return in_parts ? build_.batch_norm_in_parts(x, step_.inputs.weight, gamma, beta, mean, var,
                                                 1e-5, 0.1)
                    : build_.batch_norm(x, gamma, beta, mean, var, 1e-5, 0.1);
  }

  void norm() {
    graph::ValueId x = step_.inputs.features = input("features", {batch_, 5, 5, 2});
    x = tanh(batch_norm(conv(x, 2, 3, "conv0"), "bn0", false));
    x = tanh(batch_norm(conv(x, 3, 3, "conv1"), "bn1", true));
    x = tanh(batch_norm(conv(x, 3, 4, "conv2"), "bn2", true));
    classify(x);
  }

  void classify(graph::ValueId x) {
    build_.layer = "pool";
    x = build_.global_avg_pool(x);
    x = linear(x, parameter("fc.weight", {4, 4}), "fc");
    build_.layer = "loss";
    step_.inputs.target = input("target", {batch_}, RT_INT32);
    step_.loss = build_.cross_entropy(x, step_.inputs.target, step_.inputs.weight);
    finish();
  }

  void finish() {
    step_.graph.value(step_.loss).kind = graph::ValueKind::kOutput;
    step_.graph.value(step_.loss).name = "loss";
  }

  int64_t batch_;
  Step step_;
  graph::Build build_;
};

}  // namespace

Step make_step(Net net, int64_t batch, double share, bool gradients) {
  StepBuilder builder(net, batch, share);
  return gradients ? builder.with_gradients() : builder.forward();
}

RankStep::RankStep(Net net, int64_t batch, const ScheduleOptions& options, int rank, int data_ranks,
                   const std::map<std::string, int>& hints)
    : data(data_ranks),
      step(make_step(net, batch, 1.0 / (options.micro_batches * data), options.backward)) {
  graph::Graph& g = step.graph;
  pipeline.schedule = make_schedule(options);
  pipeline.stages = assign_stages(g, {.stages = pipeline.schedule.stages(), .hints = hints});
  pipeline.rank = rank;
  cut_stages(g, pipeline, step.gradients);
  buffers.loss = step.loss;
  place(options.backward);
}

void RankStep::unroll() {
  values = distribute(step.graph, buffers, step.inputs, {.pipeline = &pipeline});
}

graph::ValueId RankStep::flat(const std::string& name, graph::ValueKind kind) {
  graph::Value v;
  v.name = name;
  v.kind = kind;
  v.dtype = RT_FLOAT64;
  v.dims = {static_cast<int64_t>(buffers.layout.bytes / sizeof(double))};
  return step.graph.add_value(std::move(v));
}

void RankStep::place(bool with_gradients) {
  graph::Graph& g = step.graph;
  std::vector<uint64_t> bytes;
  std::vector<size_t> which;
  gradients.assign(step.parameters.size(), graph::kNone);
  for (size_t i = 0; i < step.parameters.size(); ++i) {
    if (!is_read(g, step.parameters[i])) continue;
    which.push_back(i);
    bytes.push_back(graph::canonical_bytes(g.value(step.parameters[i])));
  }
  buffers.layout = lay_out(bytes, {.world_size = data, .bucket_bytes = 400});
  buffers.parameters = flat("parameters", graph::ValueKind::kParameter);
  if (with_gradients) buffers.gradients = flat("gradients", graph::ValueKind::kState);
  for (size_t k = 0; k < which.size(); ++k) {
    const graph::ValueId p = step.parameters[which[k]];
    g.value(p).base = buffers.parameters;
    g.value(p).offset = buffers.layout.offsets[k];
    if (with_gradients) gradients[which[k]] = place_gradient(p, buffers.layout.offsets[k]);
  }
}

graph::ValueId RankStep::place_gradient(graph::ValueId parameter, uint64_t offset) {
  graph::Graph& g = step.graph;
  graph::Value own = g.value(parameter);
  own.name += ".gradient";
  own.kind = graph::ValueKind::kTemporary;
  own.base = buffers.gradients;
  own.offset = offset;
  const graph::ValueId gradient = g.add_value(own);
  graph::Build build(g);
  build.layer = own.name;
  build.phase = graph::Phase::kBackward;
  build.node_into(RT_OP_COPY, {step.gradients.at(parameter)}, {gradient});
  for (SharedParameter& shared : pipeline.shared) {
    if (shared.parameter == parameter) shared.gradient = gradient;
  }
  return gradient;
}

}  // namespace runtime::parallel
