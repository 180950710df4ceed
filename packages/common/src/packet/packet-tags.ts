// What is in front of each field: (field number << 3) | wire type; proto/tunnel.proto has the numbers.

// Of `Packet`: its type, and its payload message.
export const TAG_TYPE = 0x08;
export const TAG_DIAL_REQUEST = 0x12;
export const TAG_DIAL_RESPONSE = 0x1a;
export const TAG_DATA = 0x22;
export const TAG_CLOSE_REQUEST = 0x2a;
export const TAG_CLOSE_RESPONSE = 0x32;
export const TAG_CLOSE_DIAL = 0x3a;
export const TAG_DRAIN = 0x42;
export const TAG_CREDIT = (64 << 3) | 2;
export const TAG_FINISH = (65 << 3) | 2;
export const TAG_RESET = (66 << 3) | 2;

// Of the payload messages.
export const TAG_VARINT_1 = 0x08;
export const TAG_STRING_1 = 0x0a;
export const TAG_VARINT_2 = 0x10;
export const TAG_STRING_2 = 0x12;
export const TAG_VARINT_3 = 0x18;
export const TAG_BYTES_3 = 0x1a;
