/* C surface over HailoRT's InferModel API, for Rust.
 *
 * Every function is noexcept and returns a hailo_status (0: success) unless it says otherwise. `error` may be null; it is written on failure
 * alone. Strings in are NUL-terminated UTF-8 and copied. Handles may be moved between threads, never used by two at once. What frees a
 * handle accepts null and cannot fail; handles keep alive what they need, so that any order of freeing is sound. */
#ifndef FIDELITY_HAILORT_SHIM_H
#define FIDELITY_HAILORT_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* Raised with every change of this file that Rust could notice. */
#define FID_ABI_VERSION 1

#ifdef __cplusplus
#define FID_NOEXCEPT noexcept
extern "C" {
#else
#define FID_NOEXCEPT
#endif

/* Where a call failed. */
enum fid_step {
    FID_STEP_NONE = 0,
    FID_STEP_ARGS = 1,
    FID_STEP_SCAN = 2,
    FID_STEP_VDEVICE = 3,
    FID_STEP_DEVICE_INFO = 4,
    FID_STEP_CREATE_MODEL = 5,
    FID_STEP_FORMAT = 6,
    FID_STEP_CONFIGURE = 7,
    FID_STEP_ALLOC = 8,
    FID_STEP_BINDINGS = 9,
    FID_STEP_READY = 10,
    FID_STEP_SUBMIT = 11,
    FID_STEP_WAIT = 12,
    FID_STEP_CACHE = 13,
    FID_STEP_SHUTDOWN = 14,
    FID_STEP_HEF = 15,
    FID_STEP_EXCEPTION = 16
};

typedef struct fid_error {
    int32_t status;
    int32_t step;
    char detail[240];
} fid_error;

typedef struct fid_versions_info {
    uint32_t library[3];
    /* That of the headers this was compiled against. */
    uint32_t header[3];
} fid_versions_info;

typedef struct fid_id {
    char text[32];
} fid_id;

typedef struct fid_open_options {
    /* Null: any device. */
    const char *device_id;
    /* Null: the library's default, which is exclusive use. */
    const char *group_id;
    /* hailo_scheduling_algorithm_t; -1: the library's default. */
    int32_t scheduler;
    int32_t multi_process_service;
} fid_open_options;

typedef struct fid_device_info {
    char id[32];
    char board_name[32];
    char product_name[48];
    char serial_number[32];
    char part_number[32];
    uint32_t firmware[3];
    /* hailo_device_architecture_t. */
    int32_t architecture;
    uint32_t is_release;
    uint32_t reserved;
} fid_device_info;

typedef struct fid_stream_info {
    char name[128];
    uint32_t height;
    uint32_t width;
    uint32_t features;
    /* hailo_format_type_t and hailo_format_order_t that the host uses now, hailo_format_flags_t. */
    int32_t format_type;
    int32_t format_order;
    int32_t format_flags;
    float scale;
    float zero_point;
    float limit_min;
    float limit_max;
    uint32_t is_nms;
    uint32_t reserved;
    uint64_t frame_size;
} fid_stream_info;

typedef struct fid_device fid_device;
typedef struct fid_model fid_model;
typedef struct fid_group fid_group;

/* FID_ABI_VERSION; asked before anything else. */
uint32_t fid_abi_version(void) FID_NOEXCEPT;
int32_t fid_versions(fid_versions_info *out, fid_error *error) FID_NOEXCEPT;
/* The library's name of a status; never null. */
const char *fid_status_name(int32_t status) FID_NOEXCEPT;
/* Ends the process at once: no destructor, no handler of exit. */
void fid_exit(int32_t code) FID_NOEXCEPT;

/* Ids of the devices that are installed, at most `capacity` of them; `count` is how many there are. Opens none. */
int32_t fid_scan(fid_id *ids, size_t capacity, size_t *count, fid_error *error) FID_NOEXCEPT;

int32_t fid_device_open(const fid_open_options *options, fid_device **out, fid_error *error) FID_NOEXCEPT;
int32_t fid_device_identify(fid_device *device, fid_device_info *out, fid_error *error) FID_NOEXCEPT;
void fid_device_close(fid_device *device) FID_NOEXCEPT;

/* Sends the whole HEF to the device. `group` is the exact name of a network group, or empty where the file has one. */
int32_t fid_model_create_path(fid_device *device, const char *path, const char *group, fid_model **out, fid_error *error) FID_NOEXCEPT;
int32_t fid_model_create_bytes(fid_device *device, const uint8_t *bytes, size_t length, const char *group, fid_model **out,
    fid_error *error) FID_NOEXCEPT;
int32_t fid_model_stream_count(fid_model *model, int32_t is_output, size_t *count, fid_error *error) FID_NOEXCEPT;
int32_t fid_model_stream_info(fid_model *model, int32_t is_output, size_t index, fid_stream_info *out, fid_error *error) FID_NOEXCEPT;
/* These four before fid_model_configure. */
int32_t fid_model_set_format_type(fid_model *model, int32_t is_output, size_t index, int32_t type, fid_error *error) FID_NOEXCEPT;
int32_t fid_model_set_kv_cache(fid_model *model, int32_t enabled, fid_error *error) FID_NOEXCEPT;
int32_t fid_model_set_batch_size(fid_model *model, uint16_t size, fid_error *error) FID_NOEXCEPT;
int32_t fid_model_set_power_mode(fid_model *model, int32_t mode, fid_error *error) FID_NOEXCEPT;
/* Configures, allocates a buffer for every stream (whole pages, zeroed) and binds them. */
int32_t fid_model_configure(fid_model *model, fid_group **out, fid_error *error) FID_NOEXCEPT;
/* Groups that were configured from it stay valid. */
void fid_model_free(fid_model *model) FID_NOEXCEPT;

int32_t fid_group_queue_size(fid_group *group, size_t *out, fid_error *error) FID_NOEXCEPT;
/* A stream's buffer, valid until fid_group_free. To be touched only while no run is in progress, and never once the group is poisoned. */
int32_t fid_group_buffer(fid_group *group, int32_t is_output, size_t index, uint8_t **data, size_t *length, fid_error *error) FID_NOEXCEPT;
int32_t fid_group_init_cache(fid_group *group, uint32_t offset, fid_error *error) FID_NOEXCEPT;
int32_t fid_group_update_cache_offset(fid_group *group, int32_t delta, fid_error *error) FID_NOEXCEPT;
/* One inference. Status 4 after `timeout_ms` poisons the group: the reply may still come and is then written into its buffers. */
int32_t fid_group_run(fid_group *group, uint32_t timeout_ms, fid_error *error) FID_NOEXCEPT;
/* 1 once a run timed out; runs and cache calls then return 6. */
int32_t fid_group_is_poisoned(const fid_group *group) FID_NOEXCEPT;
int32_t fid_group_shutdown(fid_group *group, fid_error *error) FID_NOEXCEPT;
/* A poisoned group is leaked on purpose: the library writes into its buffers when the late reply comes, and libhailort 5.2.0 uses a
 * configured model that was destroyed with a job in flight. */
void fid_group_free(fid_group *group) FID_NOEXCEPT;

/* Of a file alone, without a device. Text out is NUL-terminated and cut at `capacity`; `needed` is its length with the NUL. */
int32_t fid_hef_description(const char *path, char *text, size_t capacity, size_t *needed, fid_error *error) FID_NOEXCEPT;
/* Names of the network groups, each followed by a newline. */
int32_t fid_hef_group_names(const char *path, char *text, size_t capacity, size_t *needed, fid_error *error) FID_NOEXCEPT;
/* An external resource of a HEF in memory. HailoRT does not check its offset: only for a file that was audited. */
int32_t fid_hef_resource(const uint8_t *bytes, size_t length, const char *name, uint8_t *data, size_t capacity, size_t *needed,
    fid_error *error) FID_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
