"""Tencent DTS data subscription: the parts of an envelope, its protobuf entries, and their values."""
