// The loop over work items: fetch parameters, compute a gradient, push it to its owners.
#include "runtime/train/asynchronous/run.h"

#include <algorithm>
#include <chrono>

#include "runtime/train/loss_mean.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/micro_steps.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::train {

namespace {

constexpr const char* kWaiting = "an asynchronous update";  // for the watchdog's message

// The deadline for everything that waits for other ranks.
watch::Watchdog::Phase deadline(const config::Config& config, watch::Watchdog& watchdog) {
  return {watchdog, kWaiting,
          std::chrono::nanoseconds(static_cast<int64_t>(config.comm.timeout_s * 1e9))};
}

}  // namespace

Asynchronous::Asynchronous(const config::Config& config,
                           std::shared_ptr<const data::Dataset> dataset, StepPrograms& programs,
                           Trainer& trainer, const Resumed* resumed)
    : config_(config),
      trainer_(trainer),
      programs_(programs),
      model_(programs.rank_model()),
      setup_(programs.setup()),
      world_size_(setup_.world_size()),
      collectives_(*setup_.collectives()) {
  const parallel::FlatLayout layout =
      parallel::owned_range(model_.values().buffers.layout, setup_.rank(), world_size_);
  const uint64_t bytes = layout.bytes;
  owned_ = std::make_unique<OwnedUpdate>(
      config.optimizer, model_.read_buffer(step::kParameters, setup_.rank() * bytes, bytes),
      setup_.dtype(), world_size_, setup_.device, setup_.options, layout);
  programs_.add_notes(owned_->notes());
  model_.set_owned_state(&owned_->storage());
  if (resumed != nullptr) restore_owned(*resumed, model_);
  const int64_t first_item = trainer.steps_done() * world_size_;
  owned_->set_updates(first_item);
  exchange_ = std::make_unique<WorkExchange>(
      collectives_.communicator(parallel::kUpdatesCommunicator), collectives_.watchdog(),
      WorkExchange::Options{setup_.rank(), world_size_, config.parallelism.max_staleness,
                            first_item, bytes, [this](const Bytes& gradient, double learning_rate) {
                              owned_->apply(gradient, learning_rate);
                              return owned_->parameters();
                            }});
  loader_ = std::make_unique<data::Loader>(std::move(dataset), loader_options(resumed));
}

Asynchronous::~Asynchronous() {
  exchange_->release();
  model_.set_owned_state(nullptr);
}

data::LoaderOptions Asynchronous::loader_options(const Resumed* resumed) {
  data::LoaderOptions o = train_loader_options(config_);
  o.listed_order = resumed != nullptr && resumed->manifest.state.listed_order;
  // A prefetched work item is one that another rank cannot compute.
  o.prefetch = std::min(o.prefetch, 1);
  o.parts = world_size_;
  o.part = [split = setup_.strategy.batch](int64_t rows, int item) mutable {
    split.rank = item;
    return parallel::rows_of_rank(rows, split);
  };
  o.pick = [this]() -> std::optional<data::Pick> {
    const std::optional<int64_t> item = exchange_->next_item();
    if (!item) return std::nullopt;
    return data::Pick{*item / world_size_, static_cast<int>(*item % world_size_)};
  };
  return o;
}

int Asynchronous::run(int64_t end, const Schedule& schedule,
                      const std::function<int(const WorkItem&)>& done, Profiler* profiler) {
  exchange_->open(end * world_size_);
  pushed_ = false;
  for (;;) {
    spans_ = profiler == nullptr ? nullptr : profiler->begin_step();
    if (!one_item(schedule, done)) break;
    if (profiler != nullptr) profiler->end_step();
  }
  if (pushed_) receive_parameters();
  return synchronise();
}

// Computes the next work item. Returns false if there is none. The gradient of one work item is
// sent while the next item is computed.
bool Asynchronous::one_item(const Schedule& schedule,
                            const std::function<int(const WorkItem&)>& done) {
  const int64_t begin = exec::SpanRecorder::now();
  const data::Batch& batch = next_batch();
  if (batch.rows == 0) return false;
  add_span(exec::SpanKind::kData, begin);
  const WorkItem item = compute(batch, schedule);
  exchange(gradient_of(item, batch));
  const int64_t computed = exec::SpanRecorder::now();
  if (const int signal = done(item); signal != 0) exchange_->stop(signal);
  add_span(exec::SpanKind::kReport, computed);
  add_span(exec::SpanKind::kStep, begin);
  return true;
}

// Adds a span of the host that ends now, if the work item is recorded.
void Asynchronous::add_span(exec::SpanKind kind, int64_t begin) {
  if (spans_ != nullptr) spans_->add_host(kind, begin, exec::SpanRecorder::now());
}

void Asynchronous::exchange(ItemGradient gradient) {
  const exec::HostSpan span(spans_, exec::SpanKind::kExchange);
  if (pushed_) receive_parameters();
  exchange_->push(std::move(gradient));
  pushed_ = true;
}

const data::Batch& Asynchronous::next_batch() {
  const auto watched = deadline(config_, collectives_.watchdog());
  return loader_->next();
}

WorkItem Asynchronous::compute(const data::Batch& batch, const Schedule& schedule) {
  WorkItem item;
  item.epoch = batch.epoch;
  item.step = batch.epoch * batches_per_epoch() + batch.index;
  item.learning_rate = schedule.rate(item.step);
  item.weight = weight_of_step(batch, config_.training.global_batch_size);
  {
    const exec::HostSpan span(spans_, exec::SpanKind::kPrepare);
    for (const auto& form : programs_.forms(step::Purpose::kMicroStep, batch))
      programs_.compiled(form);
  }
  const auto run = [&](StepProgram& p) {
    {
      const exec::HostSpan span(spans_, exec::SpanKind::kLaunch);
      p.program->run(programs_.stream(), spans_);
    }
    const exec::HostSpan span(spans_, exec::SpanKind::kReport);
    item.loss = programs_.read_scalar(p, p.values.loss);  // of the rows so far
  };
  for_each_micro_step(programs_, step::Purpose::kMicroStep, batch, 0, item.step, spans_, run);
  return item;
}

ItemGradient Asynchronous::gradient_of(const WorkItem& item, const data::Batch& batch) {
  const exec::HostSpan span(spans_, exec::SpanKind::kExchange);
  ItemGradient gradient{item.step * world_size_ + batch.part,
                        item.learning_rate,
                        item.loss,
                        batch.valid,
                        {},
                        item.weight};
  for (int owner = 0; owner < world_size_; ++owner) {
    gradient.ranges.push_back(
        model_.read_buffer(step::kGradients, owner * owned_->bytes(), owned_->bytes()));
  }
  return gradient;
}

void Asynchronous::receive_parameters() {
  const auto watched = deadline(config_, collectives_.watchdog());
  write_parameters(exchange_->pull());
}

void Asynchronous::write_parameters(const std::vector<Bytes>& ranges) {
  uint64_t begin = 0;
  for (const Bytes& range : ranges) {
    model_.write_buffer(step::kParameters, begin, range);
    begin += range.size();
  }
  model_.storage().parameters_changed();
}

// Ends a run(): rank 0 takes part in the collective only after all work items that were taken have
// been applied.
int Asynchronous::synchronise() {
  {
    const auto watched = deadline(config_, collectives_.watchdog());
    exchange_->drain();
  }
  const std::vector<double> agreed = setup_.maximum(
      {static_cast<double>(exchange_->signal()), static_cast<double>(exchange_->taken())});
  exchange_->go_on();  // no rank opens again before the next collective
  Bytes all(owned_->bytes() * world_size_);
  collectives_.all_gather(owned_->parameters().data(), all.data(), owned_->bytes());
  write_parameters({all});
  trainer_.set_steps_done(static_cast<int64_t>(agreed[1]) / world_size_);
  return static_cast<int>(agreed[0]);
}

void Asynchronous::pause() {
  if (setup_.rank() == 0) exchange_->pause();
}

void Asynchronous::close() {
  exchange_->release();
  const auto watched = deadline(config_, collectives_.watchdog());
  exchange_->close();
}

}  // namespace runtime::train
