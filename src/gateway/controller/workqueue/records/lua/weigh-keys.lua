-- Estimates the memory that the keys of a controller take, from a sample of each set.
--
-- Answer: bytes, about.

-- Measured bytes of a key's place in a set and of its part of a job, without the key itself, which is in both.
local EACH_PLACE = 250
-- Bytes of one entry, for a server without MEMORY USAGE.
local EACH_RULE, EACH_NAME, EACH_RUN, EACH_FIELD, EACH_WRITE, EACH_OUTCOME = 1000, 250, 300, 50, 300, 1000
-- How many keys of each set are measured.
local SAMPLE = 20
-- Writes of one key that are all measured; of more Redis measures a few.
local MOST_MEASURED = 1000

local function usage(key, command, each, ...)
  local bytes = redis.pcall('MEMORY', 'USAGE', key, ...)
  if type(bytes) == 'number' then return bytes end
  if not bytes then return 0 end
  return redis.call(command, key) * each
end

local prefix = KEYS[1]
local function history(key) return usage(prefix .. ':history:' .. key, 'LLEN', EACH_OUTCOME, 'SAMPLES', 0) end

local function record(key)
  local fields = usage(prefix .. ':key:' .. key, 'HLEN', EACH_FIELD, 'SAMPLES', 0)
  local writes = prefix .. ':writes:' .. key
  if redis.call('HLEN', writes) > MOST_MEASURED then return fields + usage(writes, 'HLEN', EACH_WRITE) end
  return fields + usage(writes, 'HLEN', EACH_WRITE, 'SAMPLES', 0)
end

-- Returns the bytes of a set's keys, and of their data by the measure.
local function weigh(set, measure)
  local keys = redis.call('ZRANDMEMBER', set, SAMPLE)
  local bytes = 0
  for _, key in ipairs(keys) do bytes = bytes + EACH_PLACE + 2 * #key + measure(key) end
  return redis.call('ZCARD', set) * bytes / math.max(1, #keys)
end

local ends = prefix .. ':pause-ends'
local bytes = usage(prefix .. ':related', 'HLEN', EACH_RULE) + usage(prefix .. ':related-index', 'ZCARD', EACH_NAME)
bytes = bytes + usage(prefix .. ':pauses', 'HLEN', EACH_PLACE) + usage(ends, 'ZCARD', EACH_PLACE)
bytes = bytes + usage(prefix .. ':recent', 'XLEN', 64 * EACH_RUN) + weigh(prefix .. ':histories', history)
local sets = {}
local names = { 'dead', 'queued', 'backlog', 'timers', 'debounced', 'in-flight', 'resting' }
for _, scope in ipairs({ 'controller', 'recovery', 'object', 'key' }) do names[#names + 1] = 'paused:' .. scope end
for at, name in ipairs(names) do
  sets[at] = prefix .. ':' .. name
  bytes = bytes + weigh(sets[at], function(key)
    -- The data of a key that is in several sets count with the first of them.
    for before = 1, at - 1 do
      if redis.call('ZSCORE', sets[before], key) then return 0 end
    end
    -- The keys of `dead` have a history and are not in `histories`.
    return record(key) + (at == 1 and history(key) or 0)
  end)
end
-- The keys that wait for the end of a pause of their namespace.
local scopes = redis.call('ZRANDMEMBER', ends, SAMPLE)
local waiting = 0
for _, scope in ipairs(scopes) do
  if string.sub(scope, 1, 10) == 'namespace/' then waiting = waiting + weigh(prefix .. ':paused:' .. scope, record) end
end
return bytes + redis.call('ZCARD', ends) * waiting / math.max(1, #scopes)
