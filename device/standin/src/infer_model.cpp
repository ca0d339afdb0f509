#include "infer_model_client.hpp"

#include "message.hpp"

namespace hailort {

using standin::Action;
using standin::Message;

struct InferModel::InferStream::State {
    standin::Stream stream;
};

InferModel::InferStream::InferStream(std::shared_ptr<State> state) : m_state(std::move(state)) {}

const std::string InferModel::InferStream::name() const
{
    return m_state->stream.name;
}

hailo_3d_image_shape_t InferModel::InferStream::shape() const
{
    return m_state->stream.shape;
}

hailo_format_t InferModel::InferStream::format() const
{
    return m_state->stream.format;
}

size_t InferModel::InferStream::get_frame_size() const
{
    const auto &shape = m_state->stream.shape;
    const size_t items = static_cast<size_t>(shape.height) * shape.width * shape.features;
    switch (m_state->stream.format.type) {
    case HAILO_FORMAT_TYPE_UINT16:
        return items * sizeof(uint16_t);
    case HAILO_FORMAT_TYPE_FLOAT32:
        return items * sizeof(float32_t);
    default:
        return items;
    }
}

void InferModel::InferStream::set_format_type(hailo_format_type_t type)
{
    m_state->stream.format.type = type;
}

void InferModel::InferStream::set_format_order(hailo_format_order_t order)
{
    m_state->stream.format.order = order;
}

std::vector<hailo_quant_info_t> InferModel::InferStream::get_quant_infos() const
{
    return {m_state->stream.quantisation};
}

bool InferModel::InferStream::is_nms() const
{
    return false;
}

Expected<std::shared_ptr<InferModel>> InferModelClient::create(const MemoryView &hef, const std::string &name,
    const std::shared_ptr<standin::Client> &client, uint32_t handle, uint32_t vdevice_handle)
{
    const auto parsed = standin::parse(std::string_view(reinterpret_cast<const char *>(hef.data()), hef.size()));
    if (!parsed) {
        return make_unexpected(parsed.status());
    }
    for (const auto &group : parsed.value().groups) {
        // Without a name: the first group. With several, the server refuses to configure it.
        if (!name.empty() && (group.name != name)) {
            continue;
        }
        if (group.inputs.empty() || group.outputs.empty()) {
            return make_unexpected(HAILO_NOT_FOUND);
        }
        return std::shared_ptr<InferModel>(std::make_shared<InferModelClient>(group, client, handle, vdevice_handle));
    }
    return make_unexpected(HAILO_NOT_FOUND);
}

InferModelClient::InferModelClient(const standin::Group &group, const std::shared_ptr<standin::Client> &client, uint32_t handle,
    uint32_t vdevice_handle)
    : m_client(client), m_handle(handle), m_vdevice_handle(vdevice_handle)
{
    const auto add = [](const std::vector<standin::Stream> &from, std::vector<InferStream> &to) {
        for (const auto &stream : from) {
            to.push_back(InferStream(std::make_shared<InferStream::State>(InferStream::State{stream})));
        }
    };
    add(group.inputs, m_inputs);
    add(group.outputs, m_outputs);
}

InferModelClient::~InferModelClient()
{
    if (const auto client = m_client.lock()) {
        (void)client->execute(Action::INFER_MODEL_DESTROY, Message().handle(1, m_handle).str());
    }
}

namespace {

// A stream as the host will use it. The conversion between its format and the device's is the server's work: float32 of a RoPE input goes over
// the link as float32 and is quantised there (HailoRT 5.2.0: hailort_server.cpp sets these formats on its own InferModel, whose pipeline
// quantises, net_flow/pipeline/async_infer_runner.cpp).
Message stream_params(const InferModel::InferStream &stream)
{
    // What is not set about NMS is -1.
    Message message;
    message.text(1, stream.name());
    message.number(2, static_cast<uint32_t>(stream.format().order));
    message.number(3, static_cast<uint32_t>(stream.format().type));
    message.real(4, -1.0F).real(5, -1.0F);
    return message.number(6, UINT32_MAX).number(7, UINT32_MAX).number(8, UINT32_MAX);
}

} // namespace

Expected<ConfiguredInferModel> InferModelClient::configure()
{
    Message request;
    request.handle(1, m_handle).handle(2, m_vdevice_handle);
    for (const auto &input : m_inputs) {
        request.message(3, stream_params(input));
    }
    for (const auto &output : m_outputs) {
        request.message(4, stream_params(output));
    }
    request.number(5, m_batch_size).number(6, static_cast<uint32_t>(m_power_mode)).number(8, m_enable_kv_cache ? 1 : 0);
    const auto client = m_client.lock();
    if (!client) {
        return make_unexpected(HAILO_INTERNAL_FAILURE);
    }
    const auto reply = client->execute(Action::INFER_MODEL_CREATE_CONFIGURED, request.str(), standin::LONG_REQUEST_TIMEOUT,
        standin::CONFIGURE_MAX);
    if (!reply) {
        return make_unexpected(reply.status());
    }
    auto impl = std::make_shared<ConfiguredInferModel::Impl>();
    impl->client = client;
    impl->handle = standin::handle_of(reply.value(), 1);
    impl->model_handle = m_handle;
    impl->queue_size = static_cast<uint32_t>(standin::find(reply.value(), 2).value);
    for (const auto &input : m_inputs) {
        impl->inputs.emplace_back(input.name(), input.get_frame_size());
    }
    for (const auto &output : m_outputs) {
        impl->outputs.emplace_back(output.name(), output.get_frame_size());
    }
    return ConfiguredInferModel(std::move(impl));
}

} // namespace hailort
