// A stand-in for CUDA's driver: it records launches, checks handles and contexts, and runs a callback as the kernel.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Configuration;
typedef void (*Run)(const char *entry, const Configuration *configuration, void **parameters);
typedef struct { char entry[64]; int device; int dynamic_shared; } Kernel;

static __thread intptr_t stack[16];
static __thread int depth;
static Kernel kernels[256];
static int kernel_count, module_device[256], module_count;
int stand_in_devices = 1, stand_in_major = 9, stand_in_minor = 0, stand_in_version = 12080;
int stand_in_refuse_code, stand_in_fail_next, stand_in_launches, stand_in_needs_context = 1;  // 2: tensor maps too
int stand_in_encoded, stand_in_replaced;  // tensor maps
int stand_in_allocated;  // blocks
int stand_in_flushes;  // memory set
int stand_in_capturing;  // whether streams are
int stand_in_early;  // launches that may begin before the previous one has ended
int stand_in_clusters = 66;  // of two blocks, that run at the same time
int stand_in_multiprocessors = 132;
Configuration stand_in_last;
static Run run;

int stand_in_khz, stand_in_memory_khz, stand_in_bits, stand_in_l2; // 0: the driver does not tell
static intptr_t current(void) { return depth ? stack[depth - 1] : 0; }
void stand_in_reset(void) {
  stand_in_devices = 1; stand_in_major = 9; stand_in_minor = 0; stand_in_version = 12080;
  stand_in_refuse_code = stand_in_fail_next = stand_in_launches = 0;
  stand_in_encoded = stand_in_replaced = 0;
  stand_in_early = 0; stand_in_clusters = 66; stand_in_multiprocessors = 132;
  stand_in_khz = stand_in_memory_khz = stand_in_bits = stand_in_l2 = 0;
  stand_in_allocated = stand_in_flushes = stand_in_capturing = 0;
  kernel_count = module_count = depth = 0; run = 0; stand_in_needs_context = 1;
}
void stand_in_run(Run given) { run = given; }
int stand_in_shared(int kernel) { return kernels[kernel].dynamic_shared; }
int stand_in_modules(void) { return module_count; }

int cuInit(unsigned flags) { return stand_in_devices < 0 ? 100 : 0; }
int cuDriverGetVersion(int *version) { *version = stand_in_version; return 0; }
int cuDeviceGetCount(int *count) { *count = stand_in_devices; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  *value = which == 75 ? stand_in_major : which == 76 ? stand_in_minor : which == 97 ? 232448
         : which == 16 ? stand_in_multiprocessors
         : which == 13 ? stand_in_khz : which == 36 ? stand_in_memory_khz : which == 37 ? stand_in_bits
         : which == 38 ? stand_in_l2 : 0;
  return device < stand_in_devices ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(0xC0 + device); return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)current(); return 0; }
int cuCtxPushCurrent_v2(void *context) { stack[depth++] = (intptr_t)context; return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = (void *)current(); depth--; return 0; }
int cuModuleLoadData(void **module, const char *code) {
  if (stand_in_refuse_code) return stand_in_refuse_code;
  if (!current()) return 201;
  module_device[module_count] = (int)(current() - 0xC0);
  *module = (void *)(intptr_t)(0x1000 + module_count++);
  return strstr(code, ".entry") || !memcmp(code, "\177ELF", 4) ? 0 : 218; // PTX or a cubin
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  Kernel *kernel = &kernels[kernel_count];
  strncpy(kernel->entry, name, 63);
  kernel->device = module_device[(intptr_t)module - 0x1000];
  kernel->dynamic_shared = 0;
  *function = (void *)(intptr_t)(0x2000 + kernel_count++);
  return 0;
}
int cuFuncSetAttribute(void *function, int which, int value) {
  if (which == 8) kernels[(intptr_t)function - 0x2000].dynamic_shared = value;
  return 0;
}
typedef struct { int id; char pad[4]; union { char pad[64]; unsigned extents[3]; int number; } value; } Attribute;
int cuOccupancyMaxActiveClusters(int *count, void *function, const Configuration *configuration) {
  const Attribute *attribute = configuration->attributes;
  if (!current()) return 201;
  if (configuration->count != 1 || attribute->id != 4) return 1;
  *count = stand_in_clusters * 2 / (int)attribute->value.extents[0];
  return 0;
}
void *stand_in_memory_stream;
int cuMemAllocAsync(uint64_t *pointer, size_t size, void *stream) {
  if (!current()) return 201;
  stand_in_allocated++;
  stand_in_memory_stream = stream;
  *pointer = (uint64_t)(uintptr_t)aligned_alloc(256, (size + 255) / 256 * 256);
  return 0;
}
int cuMemFreeAsync(uint64_t pointer, void *stream) {
  stand_in_allocated -= stream == stand_in_memory_stream;
  free((void *)(uintptr_t)pointer);
  return 0;
}
int cuStreamSynchronize(void *stream) { return 0; }

int cuStreamIsCapturing(void *stream, int *status) { *status = stand_in_capturing; return 0; }
// Events hold the number of launches so far: a launch takes stand_in_microseconds.
int stand_in_microseconds = 20, stand_in_events;
int cuEventCreate(void **event, unsigned flags) {
  if (!current()) return 201;
  stand_in_events++;
  *event = calloc(1, sizeof(int));
  return 0;
}
int cuEventRecord(void *event, void *stream) { *(int *)event = stand_in_launches; return 0; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  *milliseconds = (*(int *)end - *(int *)start) * stand_in_microseconds / 1000.0f;
  return 0;
}
int cuEventDestroy_v2(void *event) { stand_in_events--; free(event); return 0; }
int cuMemsetD8Async(uint64_t pointer, unsigned char value, size_t size, void *stream) {
  stand_in_flushes++;
  memset((void *)(uintptr_t)pointer, value, size);
  return 0;
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *free_bytes = *total = 1 << 26; return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
  memcpy((void *)(uintptr_t)to, from, size);
  return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  memcpy(to, (void *)(uintptr_t)from, size);
  return 0;
}
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "stand-in", size); return 0; }
// A tensor map: its address comes first, as in the driver's own.
typedef struct { uint64_t address, strides[4]; uint32_t type, rank, swizzle, sizes[5], box[5]; } TensorMap;
int cuTensorMapEncodeTiled(TensorMap *map, int type, unsigned rank, void *address, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                           int swizzle, int promotion, int outside) {
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5) return 1;
  if (stand_in_needs_context == 2 && !current()) return 201;
  memset(map, 0, 128);
  *map = (TensorMap){(uint64_t)(uintptr_t)address, {0}, type, rank, swizzle, {0}, {0}};
  for (unsigned i = 0; i < rank; i++) {
    if (box[i] < 1 || box[i] > 256 || steps[i] != 1 || (i && strides[i - 1] % 16)) return 1;
    map->sizes[i] = sizes[i];
    map->box[i] = box[i];
    if (i) map->strides[i - 1] = strides[i - 1];
  }
  stand_in_encoded++;
  return 0;
}
int cuTensorMapReplaceAddress(TensorMap *map, void *address) {
  if ((uintptr_t)address % 16) return 1;
  map->address = (uint64_t)(uintptr_t)address;
  stand_in_replaced++;
  return 0;
}
int cuGetErrorName(int code, const char **name) {
  *name = code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
        : code == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : 0;
  return 0;
}
static int launch(const Configuration *configuration, void *function, void **parameters);
int cuLaunchKernelEx(const Configuration *configuration, void *function, void **parameters, void **extra) {
  return launch(configuration, function, parameters);
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  Configuration configuration = {{gx, gy, gz}, {bx, by, bz}, shared, stream, 0, 0};
  return launch(&configuration, function, parameters);
}
static int launch(const Configuration *configuration, void *function, void **parameters) {
  Kernel *kernel = &kernels[(intptr_t)function - 0x2000];
  if (stand_in_fail_next) { int code = stand_in_fail_next; stand_in_fail_next = 0; return code; }
  if (stand_in_needs_context && current() != 0xC0 + kernel->device) return 201;
  stand_in_last = *configuration;
  const Attribute *attribute = configuration->attributes;
  stand_in_early += configuration->count == 1 && attribute->id == 6 && attribute->value.number == 1;
  stand_in_launches++;
  if (run) run(kernel->entry, configuration, parameters);
  return 0;
}
