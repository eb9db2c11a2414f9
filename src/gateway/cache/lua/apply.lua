-- Applies one chunk of changes to a view: writes objects, indexes, wakeups and version together or not at all.
--
-- KEYS[1] view     HASH   version, writerId, incarnation, rewound, users, missed:<user>
-- KEYS[2] objects  HASH   key -> encoded object
-- KEYS[3] entries  HASH   key -> version \n uid \n T? \n index entry ...
-- KEYS[4] order    ZSET   keys
-- KEYS[5] outbox   STREAM wakeups
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] what an index entry is appended to, to name its SET (same hash tag as KEYS)
-- ARGV[3] the view's new version, or '' to leave it (inside a list)
-- ARGV[4] '1' when versions cannot be compared with those stored (the server's data went back in time)
-- ARGV[5] a new incarnation, when this ends a list of data that went back in time; else ''
-- ARGV[6] the users whose handlers were called with these operations, a line each
-- ARGV[7] those of them whose handlers have failed, a line each: they have missed a change
-- ARGV[8] number of operations, then four each: 'S' key entry object | 'D' key version ''
-- then    number of wakeups, then four each: controller, key or '', lookup (JSON) or '', reasons (JSON)
--
-- Answer: number of operations that changed the view, or -1 when the writer is another and nothing was done.
-- A second run of the same chunk changes nothing but the outbox, where a wakeup may then stand twice.

local view, objects, entries, order, outbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local writer_id, index_prefix, version, incomparable = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local incarnation, users = ARGV[5], ARGV[6]

if redis.call('HGET', view, 'writerId') ~= writer_id then
  return -1
end

-- Decimal numbers of any length, as KEP-5504 has them.
local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function split(entry)
  local version_end = string.find(entry, '\n', 1, true)
  local uid_end = string.find(entry, '\n', version_end + 1, true)
  local flag_end = string.find(entry, '\n', uid_end + 1, true)
  local indexes = flag_end and string.sub(entry, flag_end + 1) or ''
  return string.sub(entry, 1, version_end - 1), indexes
end

local function each(indexes, command, key)
  for index in string.gmatch(indexes, '[^\n]+') do
    redis.call(command, index_prefix .. index, key)
  end
end

-- Who heard of the changes so far and does not hear of these has missed something, and starts over when it is back.
if tonumber(ARGV[8]) > 0 then
  local before = redis.call('HGET', view, 'users')
  if before ~= users then
    for user in string.gmatch(before or '', '[^\n]+') do
      if not string.find('\n' .. users .. '\n', '\n' .. user .. '\n', 1, true) then
        redis.call('HINCRBY', view, 'missed:' .. user, 1)
      end
    end
    redis.call('HSET', view, 'users', users)
  end
end

for user in string.gmatch(ARGV[7], '[^\n]+') do
  redis.call('HINCRBY', view, 'missed:' .. user, 1)
end

local changed = 0
local at = 9
for _ = 1, tonumber(ARGV[8]) do
  local kind, key, entry, object = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 4
  local stored = redis.call('HGET', entries, key)
  local stored_version, stored_indexes = nil, ''
  if stored then stored_version, stored_indexes = split(stored) end
  if kind == 'S' then
    local new_version, new_indexes = split(entry)
    if not stored or incomparable or newer(new_version, stored_version) then
      -- First what an object's own values may make fail: without its entry the object is not there yet, and may come again.
      if stored_indexes ~= new_indexes then
        each(stored_indexes, 'SREM', key)
        each(new_indexes, 'SADD', key)
      end
      redis.call('HSET', objects, key, object)
      redis.call('HSET', entries, key, entry)
      if not stored then redis.call('ZADD', order, 0, key) end
      changed = changed + 1
    end
  elseif stored and (incomparable or not newer(stored_version, entry)) then
    redis.call('HDEL', objects, key)
    redis.call('HDEL', entries, key)
    redis.call('ZREM', order, key)
    each(stored_indexes, 'SREM', key)
    changed = changed + 1
  end
end

local wakeups = tonumber(ARGV[at])
at = at + 1
for _ = 1, wakeups do
  redis.call('XADD', outbox, '*', 'c', ARGV[at], 'k', ARGV[at + 1], 'l', ARGV[at + 2], 'r', ARGV[at + 3])
  at = at + 4
end

if version ~= '' then
  redis.call('HSET', view, 'version', version)
end
if incarnation ~= '' then
  redis.call('HSET', view, 'incarnation', incarnation)
  redis.call('HDEL', view, 'rewound')
end
return changed
