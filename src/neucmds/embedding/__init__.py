"""The result: D̂, distances, neighbours, `transform`, `save`, `load`."""

from neucmds.embedding.info import Info
from neucmds.embedding.inner_product import InnerProduct
from neucmds.embedding.result import Embedding, procrustes

__all__ = ["Embedding", "Info", "InnerProduct", "procrustes"]
