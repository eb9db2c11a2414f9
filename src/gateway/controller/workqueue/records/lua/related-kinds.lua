-- The kinds of the related objects that keys have named, each once.
--
-- KEYS[1] related index ZSET
-- ARGV[1] how many kinds at most
--
-- Answer: `apiVersion/Kind` each.

-- include distinct-kinds
return distinct_kinds(KEYS[1], tonumber(ARGV[1]))
