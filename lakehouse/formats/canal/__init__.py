"""Alibaba Canal: FlatMessage (JSON) and the protobuf Entry of the replica protocol."""
