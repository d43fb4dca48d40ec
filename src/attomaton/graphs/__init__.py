"""From samples to who beats whom: edges, components, their order, and the choices inside them."""
