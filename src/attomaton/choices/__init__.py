"""Choice models: Bradley–Terry, Plackett–Luce and conditional logit on any data, also where they diverge."""
