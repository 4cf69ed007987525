// The checking functions, as tables. Each checks the call, makes it with the plugin's own function
// and objects, and checks the answer.
#ifndef PLUGINS_VALIDATE_CALLS_H_
#define PLUGINS_VALIDATE_CALLS_H_

#include "plugins/host/tables.h"

namespace plugins::validate {

// The `self` of these tables is an Instance, their objects are Objects. Slots that `plain` does not
// have are NULL.
rt_device_api device_calls(const rt_device_api& plain);
// Sets the slots of streams, copies and events.
void set_stream_calls(rt_device_api& table);
rt_kernel_api kernel_calls(const rt_kernel_api& plain);
rt_communicator_api communicator_calls(const rt_communicator_api& plain);
rt_capture_api capture_calls(const rt_capture_api& plain);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_CALLS_H_
