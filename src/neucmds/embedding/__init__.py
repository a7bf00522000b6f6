"""The result, and what one does with it: D̂, pairs, neighbours, `transform`, `save`, `load`."""

from neucmds.embedding.building import build_embedding as build_embedding
from neucmds.embedding.inner_product import InnerProduct
from neucmds.embedding.result import Embedding, procrustes

__all__ = ["Embedding", "InnerProduct", "procrustes"]
