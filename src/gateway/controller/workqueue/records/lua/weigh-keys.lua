-- Estimates the memory that the keys of a controller take.
--
-- KEYS[1] related HASH
-- KEYS[2] related index ZSET
-- KEYS[3] recent STREAM
-- KEYS[4] dead ZSET
-- then    ZSETs of keys
--
-- Answer: bytes, about.

-- Measured bytes: of a key with its record, and its job or its place in another set; of a dead letter's past runs.
local EACH_KEY, EACH_DEAD = 700, 3000
-- Bytes of one entry, for a server without MEMORY USAGE.
local EACH_RULE, EACH_NAME, EACH_RUN = 1000, 250, 300

local function usage(key, command, each)
  local bytes = redis.pcall('MEMORY', 'USAGE', key)
  if type(bytes) == 'number' then return bytes end
  if not bytes then return 0 end
  return redis.call(command, key) * each
end

local bytes = usage(KEYS[1], 'HLEN', EACH_RULE) + usage(KEYS[2], 'ZCARD', EACH_NAME)
bytes = bytes + usage(KEYS[3], 'XLEN', 64 * EACH_RUN) + redis.call('ZCARD', KEYS[4]) * (EACH_KEY + EACH_DEAD)
for at = 5, #KEYS do bytes = bytes + redis.call('ZCARD', KEYS[at]) * EACH_KEY end
return bytes
