// A model that was sent to a device, before it is configured.
#include "guard.hpp"
#include "handles.hpp"

using fidelity::copy_text;
using fidelity::guarded;
using fidelity::require;
using fidelity::take;

namespace {

const std::vector<hailort::InferModel::InferStream> &streams(const fid_model *model, int32_t is_output)
{
    require(model != nullptr, "model is null");
    return (is_output != 0) ? model->model->outputs() : model->model->inputs();
}

// A cheap copy; copies share their state, so that setting through one is setting the model's.
hailort::InferModel::InferStream stream(const fid_model *model, int32_t is_output, size_t index)
{
    const auto &all = streams(model, is_output);
    require(index < all.size(), "there is no stream of this index");
    return all[index];
}

std::string what(const std::string &file, const char *group)
{
    return "cannot create " + ((*group == '\0') ? std::string("a model") : ("network group " + std::string(group))) + " from " + file;
}

} // namespace

int32_t fid_model_create_path(fid_device *device, const char *path, const char *group, fid_model **out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((device != nullptr) && (path != nullptr) && (group != nullptr) && (out != nullptr), "an argument is null");
        *out = nullptr;
        // By path or by bytes: other overloads succeed here on a Hailo-10H, and configure then fails with 7.
        auto model = take(device->vdevice->create_infer_model(std::string(path), std::string(group)), FID_STEP_CREATE_MODEL,
            what(path, group));
        *out = new fid_model{device->vdevice, std::move(model)};
    });
}

int32_t fid_model_create_bytes(fid_device *device, const uint8_t *bytes, size_t length, const char *group, fid_model **out,
    fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((device != nullptr) && (bytes != nullptr) && (group != nullptr) && (out != nullptr), "an argument is null");
        *out = nullptr;
        const auto view = hailort::MemoryView::create_const(bytes, length);
        auto model = take(device->vdevice->create_infer_model(view, std::string(group)), FID_STEP_CREATE_MODEL, what("memory", group));
        *out = new fid_model{device->vdevice, std::move(model)};
    });
}

int32_t fid_model_stream_count(fid_model *model, int32_t is_output, size_t *count, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(count != nullptr, "count is null");
        *count = streams(model, is_output).size();
    });
}

int32_t fid_model_stream_info(fid_model *model, int32_t is_output, size_t index, fid_stream_info *out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(out != nullptr, "out is null");
        const auto described = stream(model, is_output, index);
        fid_stream_info info = {};
        copy_text(info.name, described.name());
        info.is_nms = described.is_nms() ? 1 : 0;
        if (info.is_nms == 0) {
            const auto shape = described.shape();
            info.height = shape.height;
            info.width = shape.width;
            info.features = shape.features;
        }
        const auto format = described.format();
        info.format_type = static_cast<int32_t>(format.type);
        info.format_order = static_cast<int32_t>(format.order);
        info.format_flags = static_cast<int32_t>(format.flags);
        const auto quantisations = described.get_quant_infos();
        if (!quantisations.empty()) {
            info.scale = quantisations[0].qp_scale;
            info.zero_point = quantisations[0].qp_zp;
            info.limit_min = quantisations[0].limvals_min;
            info.limit_max = quantisations[0].limvals_max;
        }
        info.frame_size = described.get_frame_size();
        *out = info;
    });
}

int32_t fid_model_set_format_type(fid_model *model, int32_t is_output, size_t index, int32_t type, fid_error *error) noexcept
{
    return guarded(error, [&] {
        // HailoRT takes any number here and fails later.
        if ((type < HAILO_FORMAT_TYPE_AUTO) || (type > HAILO_FORMAT_TYPE_FLOAT32)) {
            throw fidelity::Failure{HAILO_INVALID_ARGUMENT, FID_STEP_FORMAT, "no such format type"};
        }
        stream(model, is_output, index).set_format_type(static_cast<hailo_format_type_t>(type));
    });
}

int32_t fid_model_set_kv_cache(fid_model *model, int32_t enabled, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(model != nullptr, "model is null");
        model->model->set_enable_kv_cache(enabled != 0);
    });
}

int32_t fid_model_set_batch_size(fid_model *model, uint16_t size, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(model != nullptr, "model is null");
        model->model->set_batch_size(size);
    });
}

int32_t fid_model_set_power_mode(fid_model *model, int32_t mode, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(model != nullptr, "model is null");
        require((mode == HAILO_POWER_MODE_PERFORMANCE) || (mode == HAILO_POWER_MODE_ULTRA_PERFORMANCE), "no such power mode");
        model->model->set_power_mode(static_cast<hailo_power_mode_t>(mode));
    });
}

int32_t fid_model_configure(fid_model *model, fid_group **out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((model != nullptr) && (out != nullptr), "model or out is null");
        *out = nullptr;
        *out = fidelity::configure(*model);
    });
}

void fid_model_free(fid_model *model) noexcept
{
    (void)guarded(nullptr, [&] { delete model; });
}
