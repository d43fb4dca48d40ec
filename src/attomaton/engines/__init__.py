"""The two corpus passes at scale: one kernel, and the engines that run it over shards of token lists."""
