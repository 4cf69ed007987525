// Checks formats and samples of readers, right and faulty ones.
#include "plugins/host/reader.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "plugins/host/description.h"
#include "plugins/host/probe.h"
#include "plugins/host/registry.h"
#include "tests/plugins/host/support.h"

namespace plugins::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using testing::fixture;
using ::testing::HasSubstr;

std::shared_ptr<Plugin> faulty(const HostServices& services = {}) {
  return Plugin::load(fixture("faulty_reader"), services);
}

std::shared_ptr<const ReaderDataset> open(const std::string& format, int32_t split = 1,
                                          int32_t target = RT_TARGET_LABELS) {
  ReaderRequest request;
  request.split = split;
  request.path = "/data/a.txt";
  request.target = target;
  request.shape = {2};
  return ReaderDataset::open(faulty(), format, request);
}

TEST(Reader, FormatsAreListedWithTheirOptions) {
  const std::vector<ReaderFormat> formats = list_formats(*faulty());
  ASSERT_GT(formats.size(), 3u);
  EXPECT_EQ(formats[0].name, "good");
  EXPECT_EQ(formats[0].description, "for tests");
  EXPECT_EQ(formats[0].flags, 0u);
  EXPECT_EQ(formats[2].flags, RT_READER_BOTH_SPLITS);
  ASSERT_EQ(formats[0].options.size(), 1u);
  EXPECT_EQ(formats[0].options[0].key, "number");
}

TEST(Reader, APluginMayOfferNothingElse) {
  const auto plugin = faulty();
  EXPECT_EQ(plugin->device_api(), nullptr);
  ASSERT_NE(plugin->reader_api(), nullptr);
  const PluginDescription d = describe(plugin, false, [](const char*) {});
  EXPECT_TRUE(d.offers(RT_INTERFACE_READER));
  const PluginDescription copy = decode(encode(d));
  ASSERT_EQ(copy.formats.size(), d.formats.size());
  EXPECT_EQ(copy.formats[2].name, "both_splits");
  EXPECT_EQ(copy.formats[2].flags, RT_READER_BOTH_SPLITS);
  EXPECT_EQ(copy.formats[0].options[0].description, "an option");
}

TEST(Reader, SamplesAreReadInAnyOrder) {
  const auto data = open("good");
  EXPECT_EQ(data->info().samples, 12);
  EXPECT_EQ(data->features(), 2);
  EXPECT_EQ(data->feature_bytes(), 8u);
  EXPECT_EQ(data->target_bytes(), 4u);
  const int64_t indices[] = {7, 0, 7};
  float features[6];
  int32_t labels[3];
  data->read(indices, features, labels);
  EXPECT_THAT(features, ElementsAre(7, 3.5, 0, 0, 7, 3.5));
  EXPECT_THAT(labels, ElementsAre(1, 0, 1));
  data->read({indices, 1}, nullptr, labels + 1);
  EXPECT_THAT(labels, ElementsAre(1, 1, 1));
}

TEST(Reader, NumbersAndBytes) {
  const int64_t index = 5;
  float number = 0;
  open("good", RT_SPLIT_TRAINING, RT_TARGET_NUMBERS)->read({&index, 1}, nullptr, &number);
  EXPECT_EQ(number, 50);
  const auto bytes = open("bytes");
  EXPECT_EQ(bytes->feature_bytes(), 2u);
  uint8_t features[2];
  bytes->read({&index, 1}, features, nullptr);
  EXPECT_THAT(features, ElementsAre(5, 2));
}

TEST(Reader, InputsAreReadOneByOne) {
  EXPECT_TRUE(open("good")->inputs().empty());
  const auto data = open("inputs");
  ASSERT_EQ(data->inputs().size(), 2u);
  EXPECT_EQ(data->inputs()[0].name, "half");
  EXPECT_EQ(data->inputs()[1].dtype, RT_INT32);
  EXPECT_EQ(data->inputs()[1].least, -1);
  EXPECT_EQ(data->inputs()[1].most, 3);
  EXPECT_THAT(data->inputs()[1].shape, ElementsAre(2));
  EXPECT_EQ(data->inputs()[1].bytes(), 8u);
  const int64_t indices[] = {7, 0, 6};
  float half[3];
  int32_t kind[6];
  data->read_input(indices, 0, half);
  data->read_input(indices, 1, kind);
  EXPECT_THAT(half, ElementsAre(3.5, 0, 3));
  EXPECT_THAT(kind, ElementsAre(3, -1, 0, -1, 2, -1));
  float features[6];
  data->read(indices, features, nullptr);
  EXPECT_EQ(features[0], 7);
}

struct Fault {
  const char* format;
  const char* words;  // of the message
};
class FaultyReader : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultyReader, IsAnErrorWhenItIsOpened) {
  const Error error = error_of([] { open(GetParam().format); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("faulty." + std::string(GetParam().format)),
                                  HasSubstr("/data/a.txt"), HasSubstr(GetParam().words)));
}

INSTANTIATE_TEST_SUITE_P(
    Open, FaultyReader,
    ::testing::Values(
        Fault{"throws_in_open", "let an exception cross the C border: boom in open"},
        Fault{"fails_in_open", "/data/a.txt:3: 'x'; expected a number"},
        Fault{"no_result", "answered RT_OK without a result"},
        Fault{"throws_in_info", "boom in info"},
        Fault{"negative_samples", "-1 samples, expected a number from 1 to 1099511627776"},
        Fault{"many_samples", "9223372036854775807 samples"},
        Fault{"rank_zero", "samples of rank 0"}, Fault{"negative_dim", "number 0 is -2"},
        Fault{"overflow", "number 1 is 1073741824"}, Fault{"dtype", "features of type 3"},
        Fault{"target_kind", "targets of kind 9"}, Fault{"no_classes", "0 classes"},
        Fault{"many_classes", "9223372036854775807 classes"},
        Fault{"no_targets", "0 numbers in a target"},
        Fault{"input_dtype", "input 'kind': the plugin answers the type"},
        Fault{"input_rank", "the rank 9"}, Fault{"input_dim", "number 0 is 0"},
        Fault{"input_range", "the least number 4 and the largest 3"},
        Fault{"input_twice", "there are two inputs 'half'"},
        Fault{"input_no_name", "too short or has no name"},
        Fault{"input_short", "at least 96 bytes"}, Fault{"many_inputs", "inputs"}),
    [](const auto& info) { return std::string(info.param.format); });

TEST(Reader, FaultsOfReadingAreErrors) {
  const int64_t indices[] = {0, 1};
  const auto message = [&](const char* format) {
    float features[4];
    int32_t labels[4];
    const auto data = open(format);
    return std::string(error_of([&] { data->read(indices, features, labels); }).what());
  };
  EXPECT_THAT(message("throws_in_read"), HasSubstr("read 2 samples: the plugin let an exception"));
  EXPECT_THAT(message("fails_in_read"), HasSubstr("the disk is gone"));
  EXPECT_THAT(message("short_read"), HasSubstr("it has read 1, expected all of them"));
  EXPECT_THAT(message("long_read"), HasSubstr("it has read 3, expected all of them"));
}

TEST(Reader, FaultyListsOfFormatsAreRefused) {
  const auto message = [](const std::string& fault) {
    const auto plugin = Plugin::load(fixture("faulty_reader_" + fault), {});
    return std::string(error_of([&] { list_formats(*plugin); }).what());
  };
  EXPECT_THAT(message("short_format"), HasSubstr("of at least 40 bytes"));
  EXPECT_THAT(message("no_name"), HasSubstr("has no text"));
  EXPECT_THAT(message("bad_name"), HasSubstr("its name is 'Bad.Name'"));
  EXPECT_THAT(message("twice"), HasSubstr("two formats 'good'"));
  EXPECT_THAT(message("many"), HasSubstr("4294967295, expected a number from 0 to 256"));
  EXPECT_THAT(message("option"), HasSubstr("unknown type"));
  EXPECT_THAT(message("throws"), HasSubstr("boom in formats"));
}

TEST(Reader, TheProbeRejectsAFaultyListOfFormats) {
  SearchPath path;
  path.configured = {fixture("faulty_reader_twice"), fixture("faulty_reader")};
  path.probe = PLUGIN_PROBE;
  const Registry registry(path, {});
  ASSERT_EQ(registry.rejections().size(), 1u);
  EXPECT_THAT(registry.rejections()[0].reason, HasSubstr("two formats 'good'"));
  EXPECT_EQ(registry.require("faulty").formats[0].name, "good");
}

// The plugin asks through rt_host.get_interface.
TEST(Reader, APluginLearnsThatTheUserWantsToStop) {
  std::atomic<int> asked = 0;
  HostServices services;
  services.stop_requested = [&] { return ++asked > 3; };
  const Error error = error_of(
      [&] { ReaderDataset::open(faulty(services), "stops_when_asked", {.path = "/data/a.txt"}); });
  EXPECT_EQ(error.code(), RT_ERROR_ABORTED);
  EXPECT_EQ(asked, 4);
}

TEST(Reader, AFileThatDoesNotFitIntoMemoryIsRefusedWithBothNumbers) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "a.txt";
  std::FILE* out = std::fopen(file.c_str(), "w");
  for (int i = 0; i < 150'000; ++i) std::fprintf(out, "1 1:0.5 2:%d\n", i);
  std::fclose(out);
  HostServices services;
  services.available_memory = [] { return uint64_t{5} << 20; };
  const auto small = Plugin::load(fixture("libsvm_reader"), services);
  const Error error = error_of([&] { ReaderDataset::open(small, "text", {.path = file}); });
  EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(file), HasSubstr("and 5 MiB of memory are available")));
  const auto unknown = Plugin::load(fixture("libsvm_reader"), {});
  EXPECT_EQ(ReaderDataset::open(unknown, "text", {.path = file})->info().samples, 150'000);
}

// A host that knows no get_interface: the slot lies beyond its struct.
TEST(Reader, APluginWorksWithAHostOfTheFirstRelease) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "a.txt";
  std::FILE* out = std::fopen(file.c_str(), "w");
  std::fprintf(out, "1 1:0.5\n");
  std::fclose(out);
  void* library = dlopen(fixture("libsvm_reader").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<rt_plugin_entry_fn>(dlsym(library, RT_PLUGIN_ENTRY_SYMBOL));
  rt_host host{};
  host.size = RT_HOST_SIZE_V1;
  host.get_interface = [](void*, const char*, uint32_t) -> const void* { std::abort(); };
  rt_negotiation negotiation{sizeof(negotiation), 1, 1, 0, 0};
  const rt_plugin* plugin = nullptr;
  ASSERT_EQ(entry(&host, &negotiation, &plugin, nullptr), RT_OK);
  const auto* api = static_cast<const rt_reader_api*>(
      plugin->get_interface(plugin->self, RT_INTERFACE_READER, RT_READER_API_VERSION));
  rt_dataset_request request{};
  request.size = sizeof(request);
  request.split = RT_SPLIT_TRAINING;
  request.path = file.c_str();
  request.target = RT_TARGET_LABELS;
  rt_dataset* dataset = nullptr;
  EXPECT_EQ(api->open(plugin->self, "text", &request, &dataset, nullptr), RT_OK);
  api->close(dataset);
  plugin->shutdown(plugin->self);
}

TEST(Reader, ManyThreadsReadOneDataSet) {
  const auto data = open("good");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 1000; ++i) {
        const int64_t index = i % 12;
        float features[2];
        int32_t label = -1;
        data->read({&index, 1}, features, &label);
        if (features[0] != static_cast<float>(index) || label != index % 3) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace plugins::host
