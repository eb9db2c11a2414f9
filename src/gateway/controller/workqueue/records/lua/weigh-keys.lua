-- Estimates the memory that the keys of a controller take, from a sample of each set.
--
-- KEYS[1] related HASH
-- KEYS[2] related index ZSET
-- KEYS[3] recent STREAM
-- KEYS[4] prefix of a key's record HASH
-- KEYS[5] prefix of the writes HASH of a key's run
-- KEYS[6] prefix of a key's history LIST
-- KEYS[7] histories ZSET
-- KEYS[8] dead ZSET, whose keys have a history and are not in KEYS[7]
-- then    other ZSETs of keys
--
-- Answer: bytes, about.

-- Measured bytes of a key's place in a set, and of its part of a job.
local EACH_PLACE = 250
-- Bytes of one entry, for a server without MEMORY USAGE.
local EACH_RULE, EACH_NAME, EACH_RUN, EACH_FIELD, EACH_WRITE, EACH_OUTCOME = 1000, 250, 300, 50, 300, 1000
-- How many keys of each set are measured.
local SAMPLE = 20

local function usage(key, command, each, ...)
  local bytes = redis.pcall('MEMORY', 'USAGE', key, ...)
  if type(bytes) == 'number' then return bytes end
  if not bytes then return 0 end
  return redis.call(command, key) * each
end

local function history(key) return usage(KEYS[6] .. key, 'LLEN', EACH_OUTCOME, 'SAMPLES', 0) end

local function record(key)
  return usage(KEYS[4] .. key, 'HLEN', EACH_FIELD, 'SAMPLES', 0) + usage(KEYS[5] .. key, 'HLEN', EACH_WRITE, 'SAMPLES', 0)
end

-- Returns the bytes of a set's keys, and of their data by the measure.
local function weigh(set, measure)
  local keys = redis.call('ZRANDMEMBER', set, SAMPLE)
  local bytes = 0
  for _, key in ipairs(keys) do bytes = bytes + EACH_PLACE + measure(key) end
  return redis.call('ZCARD', set) * bytes / math.max(1, #keys)
end

local bytes = usage(KEYS[1], 'HLEN', EACH_RULE) + usage(KEYS[2], 'ZCARD', EACH_NAME)
bytes = bytes + usage(KEYS[3], 'XLEN', 64 * EACH_RUN) + weigh(KEYS[7], history)
for at = 8, #KEYS do
  bytes = bytes + weigh(KEYS[at], function(key)
    -- The data of a key that is in several sets count with the first of them.
    for before = 8, at - 1 do
      if redis.call('ZSCORE', KEYS[before], key) then return 0 end
    end
    return record(key) + (at == 8 and history(key) or 0)
  end)
end
return bytes
