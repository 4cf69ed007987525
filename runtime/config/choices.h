// Choices as rows. A choice is a name that a key may have; its row says what the configuration
// needs to know of it, also the keys of the section that only some choices use. The keys of a
// section, its documentation and the errors come from the rows. What runs a choice is a row of the
// same name in its room.
#ifndef RUNTIME_CONFIG_CHOICES_H_
#define RUNTIME_CONFIG_CHOICES_H_

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/declare.h"
#include "runtime/row_of.h"

namespace runtime::config {

// The lists are constant and live as long as the program; any thread may read them. A function that
// looks for the row of a name throws InternalError where the schema would have refused the name.

// A value of lr_scheduler.name.
struct Schedule {
  std::string name;
  std::vector<KeyOf<LrScheduler>> keys = {};
  bool warms_up = true;    // it uses warmup_steps
  bool ends = false;       // its rate has reached its end at decay_steps
  bool validates = false;  // its rate follows validations
};
const std::vector<Schedule>& schedules();
const Schedule& schedule_of(const LrScheduler& scheduler);

// What a loss expects of the targets of a sample.
enum class Targets {
  kLabels,         // classes
  kNumbers,        // any numbers
  kProbabilities,  // from 0 to 1 each
  kOneChoice,      // probabilities that sum to 1
};

// A value of training.loss. "auto" stands for the first one of the task.
struct Loss {
  std::string name;
  Targets targets = Targets::kNumbers;
  std::string documentation = {};  // "": the name says all
  std::vector<KeyOf<Training>> keys = {};
  bool of_logits = false;  // it takes the softmax, or the sigmoid, of what the model outputs
  // The loss of each sample, l[N,1], of the outputs y[N,D*], the target[N,D*] and the attributes;
  // "": the operation is one of the contract. `gradient` computes g[N,D*], the gradient of y, of
  // these, of the weight[N,1] of each sample and of dloss[1], the gradient of the weighted sum.
  std::string formula = {}, gradient = {};
  bool of_classes() const { return targets == Targets::kLabels; }
};
const std::vector<Loss>& losses();
// The loss of this name; for "auto" that of a data set of classes, or of numbers.
const Loss& loss_of(std::string_view name, bool classes);
// The values of the keys that are called "<loss>_<attribute>", by attribute of its formula.
AttributeValues attributes_of(const Loss& loss, Training training);

// A buffer of an optimizer's state, with an element for each parameter.
struct StateBuffer {
  std::string buffer;        // its name in checkpoints
  std::string operand = {};  // its name in the formula
  std::string key = {};      // the buffer is there only where this key is not 0; "": always
};

// A value of optimizer.name, besides those of plugins.
struct OptimizerRow {
  std::string name;
  std::vector<KeyOf<UpdateRule>> keys = {};
  bool decoupled = false;  // weight decay is no part of the gradient, but an attribute
  std::vector<StateBuffer> state = {};
  bool step = false;  // the formula reads the number of the step, counted from 1
  // The update as the formula of a plugin's optimizer, of p, g, lr, the operands of the state and
  // the attributes; "": the operation is one of the contract.
  std::string formula = {};
};
const std::vector<OptimizerRow>& optimizers();
// The attributes of the rule's operation: its keys, of which a list like `betas` gives beta1 and
// beta2. Where the rule says nothing they are the defaults of the row.
AttributeValues attributes_of(UpdateRule rule);
// The buffers of a rule that is no plugin's, in the order of the operation's operands.
std::vector<StateBuffer> state_buffers_of(const UpdateRule& rule);

// A value of dataset.format, besides those of plugins.
struct Format {
  std::string name;
  std::string path = {};  // what dataset.path names; "": the format has no files
  std::vector<KeyOf<Dataset>> keys = {};
  bool language = false;       // its samples are windows of tokens
  bool ids = false;            // its files hold token ids, so that no tokenizer can learn from them
  std::string tokenizer = {};  // the one where none is given
  bool decodes = false;        // its samples take so long to read that several threads do it
};
const std::vector<Format>& formats();

// A value of dataset.name.
struct KnownData {
  std::string name, format;
};
const std::vector<KnownData>& known_data();

// A value of dataset.task.
struct DataTask {
  std::string name;
  bool of_numbers = false;  // a target is a number, else a class
  bool language = false;    // samples are windows of tokens, whatever the format
  bool masked = false;      // some tokens of a text are hidden, which the model fills in
};
const std::vector<DataTask>& data_tasks();

// A value of dataset.tokenizer.
struct Tokenizer {
  std::string name;
  std::string files = {};  // what tokenizer_path has to name; "": nothing
  bool learns = false;     // its tokens are those of the text
};
const std::vector<Tokenizer>& tokenizers();

// The format of the data set; nullptr: that of a plugin.
const Format* format_of(const Dataset& data);
const DataTask& task_of(const Dataset& data);
bool is_regression(const Dataset& data);
bool is_language(const Dataset& data);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_CHOICES_H_
