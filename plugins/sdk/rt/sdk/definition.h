// The definition of one operation as data: what plugins/operations.md says about its operands and
// attributes. rt/sdk/definitions.h has the rows of all operations of the contract.
#ifndef RT_SDK_DEFINITION_H_
#define RT_SDK_DEFINITION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace rt::sdk {

// An input or an output of an operation.
struct OperandDefinition {
  enum Property : uint32_t {
    // Its first dimension counts rows, for example samples. The operation on fewer rows is the one
    // in which all operands with this property have fewer. (Of `matmul`: without transposed
    // operands.)
    kRows = 1,
    // It stays float32 beside operands in 16 bits. An operation in which all floating-point
    // operands do has no form in 16 bits.
    kWide = 2,
    // A normalisation computes a mean of it without losing digits, so that a rounding of this
    // operand is an error of the operation.
    kExact = 4,
    kIndex = 8,     // int32: numbers of classes, of rows of a table or of documents
    kCounter = 16,  // int64: the number of a step or of a sample
    kOptional = 32,
    kRepeated = 64,  // the operation takes one or more of it
    kInPlace = 128,  // an output in the memory of the input of the same name
  };

  std::string_view name;
  // In the language of signatures ("Operations of a plugin" of operations.md), with the brackets:
  // "[R*,D]". Empty if a signature cannot say it, as that of operands which are broadcast.
  std::string_view dims = {};
  uint32_t properties = 0;  // Property

  // Whether it has one of the properties.
  constexpr bool is(uint32_t any) const { return (properties & any) != 0; }
};

// An integer or a number that an operation has.
struct AttributeDefinition {
  std::string_view name;                // RT_ATTR_*
  std::optional<double> fallback = {};  // the value where it is left out; none: it is mandatory
};

// A list whose elements lie in the list itself, so that a table of lists is a constant. More than
// `kCapacity` elements do not compile in a constant.
template <class T, size_t kCapacity>
class DefinitionList {
 public:
  constexpr DefinitionList() = default;
  constexpr DefinitionList(std::initializer_list<T> elements) { *this = with(elements); }

  // These elements, and then `more`.
  constexpr DefinitionList with(std::initializer_list<T> more) const {
    DefinitionList all = *this;
    for (const T& element : more) all.elements_[all.size_++] = element;
    return all;
  }

  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return elements_[i]; }
  constexpr const T* begin() const { return elements_; }
  constexpr const T* end() const { return elements_ + size_; }
  // The element of this name, or nullptr.
  constexpr const T* find(std::string_view name) const {
    for (const T& element : *this) {
      if (element.name == name) return &element;
    }
    return nullptr;
  }

 private:
  T elements_[kCapacity] = {};
  size_t size_ = 0;
};

// As many as the largest row needs; it can grow.
using OperandDefinitions = DefinitionList<OperandDefinition, 8>;
using AttributeDefinitions = DefinitionList<AttributeDefinition, 16>;

// One operation. Texts are not owned. Equivalent to: a schema of torch.library, with more said
// about the operands.
struct Definition {
  enum Trait : uint32_t {
    kMandatory = 1,        // every device supports it
    kBase = 2,             // it is in the base set, though it is not mandatory
    kExactResult = 4,      // it only moves numbers, or chooses or counts among them
    kSavesData = 8,        // a forward operation writes saved data, its backward operation reads it
    kPostOperations = 16,  // post-operations may follow output 0
    kForeignLayouts = 32,  // operands of two or more dimensions may have foreign layouts
    kRowLayouts = 64,      // it follows the row layout of its first input
  };

  std::string_view name;  // RT_OP_*
  OperandDefinitions inputs, outputs;
  AttributeDefinitions attributes = {};
  uint32_t traits = 0;  // Trait

  // Whether it has one of the traits.
  constexpr bool has(uint32_t any) const { return (traits & any) != 0; }
  // The row of input `i` of an operation; nullptr for the operand of a post-operation.
  constexpr const OperandDefinition* input(size_t i) const {
    if (!inputs.empty() && inputs[inputs.size() - 1].is(OperandDefinition::kRepeated))
      i = std::min(i, inputs.size() - 1);
    return i < inputs.size() ? &inputs[i] : nullptr;
  }
  // The row of output `i` of an operation with `input_count` inputs of its own; nullptr for what a
  // post-operation stores. An output that has the name of an input is left out where that input is.
  constexpr const OperandDefinition* output(size_t i, size_t input_count) const {
    for (const OperandDefinition& row : outputs) {
      const OperandDefinition* const source = inputs.find(row.name);
      const bool left_out = source != nullptr && source >= inputs.begin() + input_count;
      if (!left_out && i-- == 0) return &row;
    }
    return nullptr;
  }
};

// Whether operands of the operation may be in 16 bits: floating-point ones that are not wide and
// always there. (The optimizers only have a narrow copy, which is optional.)
constexpr bool has_sixteen_bit_form(const Definition& definition) {
  constexpr uint32_t kOthers = OperandDefinition::kWide | OperandDefinition::kIndex |
                               OperandDefinition::kCounter | OperandDefinition::kOptional;
  for (const OperandDefinitions* const list : {&definition.inputs, &definition.outputs}) {
    for (const OperandDefinition& operand : *list) {
      if (!operand.is(kOthers)) return true;
    }
  }
  return false;
}

}  // namespace rt::sdk

#endif  // RT_SDK_DEFINITION_H_
