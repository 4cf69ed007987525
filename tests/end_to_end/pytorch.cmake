# Comparison with PyTorch. The system's Python is used, because Debian's python3-torch is installed for it; without it
# the tests are skipped.
find_program(SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)

# These repeat on another device, type or path what others compare for each change.
set(pytorch_long cpu.float32.tanh.resnet18 cpu_without_winograd.lenet cpu_without_winograd.residual reference.mlp
    reference.residual reference.residual_relu reference.bf16.lenet reference.bf16.residual reference.float32.ten_steps)

# pytorch_label(<name> <variable>): the label of the comparison.
function(pytorch_label name variable)
  if(name IN_LIST pytorch_long)
    set(${variable} end_to_end_long PARENT_SCOPE)
  else()
    set(${variable} end_to_end PARENT_SCOPE)
  endif()
endfunction()

# pytorch_parity_test(<name> <backend> <model> [ENVIRONMENT <variable=value>])
function(pytorch_parity_test name backend model)
  add_test(NAME end_to_end.pytorch.${name}
    COMMAND ${SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/pytorch_parity.py $<TARGET_FILE:runtime> ${backend} ${model})
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "ENVIRONMENT" "")
  list(APPEND arg_ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
  pytorch_label(${name} label)
  set_tests_properties(end_to_end.pytorch.${name} PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77
    ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

if(SYSTEM_PYTHON AND NOT RUNTIME_SANITIZE)
  foreach(model lenet mlp residual transformer)
    pytorch_parity_test(reference.${model} reference ${model})
    if(TARGET backend_cpu)
      pytorch_parity_test(cpu.${model} cpu ${model})
    endif()
  endforeach()
  pytorch_parity_test(reference.residual_relu reference residual_relu)
  foreach(model lenet residual transformer)
    pytorch_parity_test(reference.bf16.${model} reference ${model} ENVIRONMENT PARITY_MIXED=bf16)
  endforeach()
  foreach(backend reference cpu)
    if(TARGET backend_${backend})
      add_test(NAME end_to_end.pytorch.${backend}.gpt_losses
        COMMAND ${SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/gpt_losses.py $<TARGET_FILE:runtime> ${backend})
      set_tests_properties(end_to_end.pytorch.${backend}.gpt_losses PROPERTIES LABELS end_to_end TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
      # nanoGPT's recipe: no biases, and dropout also on the weights of attention.
      add_test(NAME end_to_end.pytorch.${backend}.gpt_losses_with_dropout
        COMMAND ${SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/gpt_losses.py $<TARGET_FILE:runtime> ${backend} --dropout 0.2 --no-bias)
      set_tests_properties(end_to_end.pytorch.${backend}.gpt_losses_with_dropout PROPERTIES LABELS end_to_end TIMEOUT 300
        SKIP_RETURN_CODE 77 ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
    endif()
  endforeach()
  foreach(backend reference cpu)
    if(TARGET backend_${backend})
      add_test(NAME end_to_end.pytorch.${backend}.record
        COMMAND ${SYSTEM_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/pytorch_record.py $<TARGET_FILE:runtime> ${backend}
          ${CMAKE_SOURCE_DIR}/tools/pytorch)
      set_tests_properties(end_to_end.pytorch.${backend}.record PROPERTIES LABELS end_to_end TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
    endif()
  endforeach()
  # Each optimizer, schedule and loss by itself.
  foreach(form reference.float64 reference.float32 cpu.float32)
    string(REPLACE "." ";" form_list ${form})
    list(GET form_list 0 backend)
    list(GET form_list 1 dtype)
    if(TARGET backend_${backend})
      add_test(NAME end_to_end.pytorch.${form}.ten_steps
        COMMAND ${SYSTEM_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/ten_steps.py $<TARGET_FILE:runtime> ${backend} ${dtype})
      pytorch_label(${form}.ten_steps label)
      set_tests_properties(end_to_end.pytorch.${form}.ten_steps PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77)
    endif()
  endforeach()
  # In float32 rounding must not decide the sign of a ReLU's input, so float32 uses tanh. By hand: resnet_gradients.py
  # RUNTIME cpu --data FOLDER [--activation tanh].
  foreach(form reference.float64.relu cpu.float32.tanh)
    string(REPLACE "." ";" form_list ${form})
    list(GET form_list 0 backend)
    list(GET form_list 1 dtype)
    list(GET form_list 2 activation)
    if(TARGET backend_${backend})
      add_test(NAME end_to_end.pytorch.${form}.resnet18
        COMMAND ${SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/resnet_gradients.py $<TARGET_FILE:runtime> ${backend}
          --dtype ${dtype} --activation ${activation} --steps 3 --batch 8 --width 8)
      pytorch_label(${form}.resnet18 label)
      set_tests_properties(end_to_end.pytorch.${form}.resnet18 PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
    endif()
  endforeach()
  if(TARGET backend_cpu)
    foreach(model lenet residual)
      pytorch_parity_test(cpu_without_winograd.${model} cpu ${model}
        ENVIRONMENT "PARITY_ARGUMENTS=--set device.cpu.winograd=false")
    endforeach()
  endif()
endif()
