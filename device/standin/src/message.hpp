// Protobuf messages, read and written by hand: the few of rpc.proto and hef.proto that are needed.
#ifndef FIDELITY_STANDIN_MESSAGE_HPP
#define FIDELITY_STANDIN_MESSAGE_HPP

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace standin {

// A message being written. As in proto3, nothing is written for 0 and for an empty text.
class Message {
public:
    Message &number(uint32_t field, uint64_t value)
    {
        if (value != 0) {
            varint(field << 3);
            varint(value);
        }
        return *this;
    }

    // Negative numbers take ten bytes.
    Message &signed_number(uint32_t field, int32_t value)
    {
        return number(field, static_cast<uint64_t>(static_cast<int64_t>(value)));
    }

    Message &real(uint32_t field, float value)
    {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        if (bits != 0) {
            varint((field << 3) | 5);
            for (int shift = 0; shift < 32; shift += 8) {
                m_bytes.push_back(static_cast<char>(bits >> shift));
            }
        }
        return *this;
    }

    Message &text(uint32_t field, std::string_view value)
    {
        return value.empty() ? *this : bytes(field, value);
    }

    // Written even when it is empty.
    Message &message(uint32_t field, const Message &value)
    {
        return bytes(field, value.m_bytes);
    }

    // A message with an id alone: a handle.
    Message &handle(uint32_t field, uint32_t id)
    {
        return message(field, Message().number(1, id));
    }

    const std::string &str() const { return m_bytes; }

private:
    Message &bytes(uint32_t field, std::string_view value)
    {
        varint((field << 3) | 2);
        varint(value.size());
        m_bytes.append(value);
        return *this;
    }

    void varint(uint64_t value)
    {
        for (; value >= 0x80; value >>= 7) {
            m_bytes.push_back(static_cast<char>(value | 0x80));
        }
        m_bytes.push_back(static_cast<char>(value));
    }

    std::string m_bytes;
};

// A field that was read.
struct Field {
    uint32_t number = 0;
    // The value of a varint or of a fixed number's bits.
    uint64_t value = 0;
    // The content of what has a length.
    std::string_view bytes;

    float real() const
    {
        const auto bits = static_cast<uint32_t>(value);
        float real = 0;
        std::memcpy(&real, &bits, sizeof(real));
        return real;
    }
};

// Walks the fields of a message. What is no message ends the walk and sets `malformed`.
class Fields {
public:
    explicit Fields(std::string_view bytes) : m_left(bytes) {}

    bool next(Field &field)
    {
        uint64_t key = 0;
        if (m_left.empty() || m_malformed || !varint(key)) {
            return false;
        }
        field = Field();
        field.number = static_cast<uint32_t>(key >> 3);
        switch (key & 7) {
        case 0:
            return varint(field.value);
        case 1:
            return fixed(8, field.value);
        case 2: {
            uint64_t length = 0;
            if (!varint(length) || (length > m_left.size())) {
                return fail();
            }
            field.bytes = m_left.substr(0, length);
            m_left.remove_prefix(length);
            return true;
        }
        case 5:
            return fixed(4, field.value);
        default:
            return fail();
        }
    }

    bool malformed() const { return m_malformed; }

private:
    bool fail()
    {
        m_malformed = true;
        return false;
    }

    bool varint(uint64_t &value)
    {
        value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            if (m_left.empty()) {
                return fail();
            }
            const auto byte = static_cast<uint8_t>(m_left.front());
            m_left.remove_prefix(1);
            if (shift < 64) {
                value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            }
            if ((byte & 0x80) == 0) {
                return true;
            }
        }
        return fail();
    }

    bool fixed(size_t size, uint64_t &value)
    {
        if (m_left.size() < size) {
            return fail();
        }
        value = 0;
        for (size_t i = 0; i < size; i++) {
            value |= static_cast<uint64_t>(static_cast<uint8_t>(m_left[i])) << (8 * i);
        }
        m_left.remove_prefix(size);
        return true;
    }

    std::string_view m_left;
    bool m_malformed = false;
};

// The first field of this number.
inline Field find(std::string_view message, uint32_t number)
{
    Fields fields(message);
    for (Field field; fields.next(field);) {
        if (field.number == number) {
            return field;
        }
    }
    return Field();
}

// The id of a handle in this field.
inline uint32_t handle_of(std::string_view message, uint32_t number)
{
    return static_cast<uint32_t>(find(find(message, number).bytes, 1).value);
}

} // namespace standin

#endif
