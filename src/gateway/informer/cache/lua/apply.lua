-- Applies one chunk of changes to a view: writes objects, indexes, wakeups and version together or not at all.
--
-- KEYS[1] view     HASH   version, shownMs, writerId, incarnation, process, position, rewound, users, missed:<user>,
--                         kept-out:<namespace>, left-out:<namespace>
-- KEYS[2] objects  HASH   key -> encoded object; '' -> the view's position while the view may be read
-- KEYS[3] entries  HASH   key -> version \n uid \n T? \n index entry ...
-- KEYS[4] order    ZSET   keys
-- KEYS[5] outbox   STREAM wakeups
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] prefix of an index entry's SET (same hash tag as KEYS)
-- ARGV[3] the view's new version, or '' to leave it (inside a list)
-- ARGV[4] '1' when versions cannot be compared with the stored versions (the server's data was rewound)
-- ARGV[5] a new incarnation, when this chunk ends a list of rewound data; else ''
-- ARGV[6] the users whose handlers were called with these operations, a line each
-- ARGV[7] the users whose handlers have failed, a line each: they have missed a change
-- ARGV[8] '1' when the view has none of the operations' keys: the script then compares nothing
-- ARGV[9] with a new version: the view shows all that the server had at this time, in milliseconds; else ''
-- ARGV[10] number of acknowledged wakeups to delete from the outbox, then their ids
-- then    number of operations, then four each: 'S' key entry object | 'D' key version ''; each key once
-- then    number of observed fields; if there are any: the present time in milliseconds, then for each field its HASH
--         (key -> time uid value) and for each 'S' operation 'uid value', 'uid \n item \n ...', or '' to leave it
-- then    number of wakeups, then four each: controller, key or '', lookup (JSON) or '', reasons (JSON)
--
-- Answer: the number of operations that changed the view, its position, then the id of each wakeup in the outbox, in order;
-- or -1 when the view has another writer and nothing was done.
-- A second run of the same chunk changes nothing but the outbox, where a wakeup may then stand twice.

local view, objects, entries, order, outbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local writer_id, index_prefix, version, incomparable = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local incarnation, users, is_new, shown_ms = ARGV[5], ARGV[6], ARGV[8] == '1', ARGV[9]

if redis.call('HGET', view, 'writerId') ~= writer_id then
  return -1
end

-- Another Redis process than that of the writes before may have lost the last of them. From its first write on the view
-- may not be read, since the write may be newer than writes that are lost, and it has no incarnation: recovery lists it.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local written_on = redis.call('HGET', view, 'process')
local is_whole = not written_on or written_on == process
if not is_whole then
  redis.call('HDEL', objects, '')
  redis.call('HDEL', view, 'incarnation')
  if written_on ~= '?' .. process then
    redis.call('HSET', view, 'process', '?')
  end
end

-- Arguments of one command, an even number for pairs. Lua's stack has room for 8000.
local MAX_ARGUMENTS = 4000

local function call(command, key, args)
  for from = 1, #args, MAX_ARGUMENTS do
    redis.call(command, key, unpack(args, from, math.min(from + MAX_ARGUMENTS - 1, #args)))
  end
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

-- The keys that leave or join each index, by index.
local leaving, joining = {}, {}

local function group(groups, indexes, key)
  for index in string.gmatch(indexes, '[^\n]+') do
    local keys = groups[index]
    if keys then keys[#keys + 1] = key else groups[index] = { key } end
  end
end

local at = 11 + tonumber(ARGV[10])
if at > 11 then
  call('XDEL', outbox, { unpack(ARGV, 11, at - 1) })
end
local operations = tonumber(ARGV[at])
at = at + 1

-- A user that received earlier changes and does not receive these has missed a change. It queues all keys when it is back.
if operations > 0 then
  local before = redis.call('HGET', view, 'users')
  if before ~= users then
    local present = {}
    for user in string.gmatch(users, '[^\n]+') do present[user] = true end
    for user in string.gmatch(before or '', '[^\n]+') do
      if not present[user] then
        redis.call('HINCRBY', view, 'missed:' .. user, 1)
      end
    end
    redis.call('HSET', view, 'users', users)
  end
end

for user in string.gmatch(ARGV[7], '[^\n]+') do
  redis.call('HINCRBY', view, 'missed:' .. user, 1)
end

local stored_entries = {}
if operations > 0 and not is_new then
  for first = 0, operations - 1, MAX_ARGUMENTS do
    local keys = {}
    for nth = first, math.min(first + MAX_ARGUMENTS, operations) - 1 do keys[#keys + 1] = ARGV[at + 4 * nth + 1] end
    for _, entry in ipairs(redis.call('HMGET', entries, unpack(keys))) do
      stored_entries[#stored_entries + 1] = entry
    end
  end
end

local changed = 0
local new_objects, new_entries, new_keys, gone = {}, {}, {}, {}
-- The keys of the 'S' operations; false where the view has the object newer.
local set_keys = {}
for nth = 1, operations do
  local kind, key, entry, object = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 4
  local stored = stored_entries[nth]
  local stored_version, stored_indexes = nil, ''
  if stored then stored_version, stored_indexes = split(stored) end
  if kind == 'S' then
    local new_version, new_indexes = split(entry)
    set_keys[#set_keys + 1] = false
    -- A mark for want of memory gives way to the object whose version it has.
    local is_left_out = new_version == stored_version and string.sub(stored_indexes, -9) == '\nleft-out'
    if not stored or incomparable or is_left_out or newer(new_version, stored_version) then
      if stored_indexes ~= new_indexes then
        group(leaving, stored_indexes, key)
        group(joining, new_indexes, key)
      end
      local pairs_before = #new_objects
      new_objects[pairs_before + 1], new_objects[pairs_before + 2] = key, object
      new_entries[pairs_before + 1], new_entries[pairs_before + 2] = key, entry
      if not stored then
        new_keys[#new_keys + 1] = 0
        new_keys[#new_keys + 1] = key
      end
      set_keys[#set_keys] = key
      changed = changed + 1
    end
  elseif stored and (incomparable or not newer(stored_version, entry)) then
    group(leaving, stored_indexes, key)
    gone[#gone + 1] = key
    changed = changed + 1
  end
end

-- The values of an object may make these commands fail. They come first: without its entry the object is not in the view
-- yet, and the chunk can be applied again.
local function move(command, index, keys, count)
  if index ~= 'kept-out' and index ~= 'left-out' then
    call(command, index_prefix .. index, keys)
    return
  end
  -- Marks are counted with each key, since a later command may fail.
  for _, key in ipairs(keys) do
    -- An object of the cluster counts under the empty name.
    local namespace = string.match(key, '^([^/]*)/') or ''
    if redis.call(command, index_prefix .. index, key) == 1 then
      local field = index .. ':' .. namespace
      if redis.call('HINCRBY', view, field, count) <= 0 then redis.call('HDEL', view, field) end
    end
  end
end
for index, keys in pairs(leaving) do move('SREM', index, keys, -1) end
for index, keys in pairs(joining) do move('SADD', index, keys, 1) end

-- include observed-now

local observed = tonumber(ARGV[at])
at = at + 1
if observed > 0 then
  local now = ARGV[at]
  at = at + 1
  for _ = 1, observed do
    local hash, values = ARGV[at], {}
    for nth, key in ipairs(set_keys) do
      local value = ARGV[at + nth]
      if key and value ~= '' then
        local next_value = observed_now(redis.call('HGET', hash, key), value, now)
        if next_value then
          values[#values + 1] = key
          values[#values + 1] = next_value
        end
      end
    end
    call('HSET', hash, values)
    call('HDEL', hash, gone)
    at = at + 1 + #set_keys
  end
end
call('HSET', objects, new_objects)
call('HSET', entries, new_entries)
call('ZADD', order, new_keys)
call('HDEL', objects, gone)
call('HDEL', entries, gone)
call('ZREM', order, gone)

local answer = { changed, 0 }
local wakeups = tonumber(ARGV[at])
at = at + 1
for nth = 1, wakeups do
  answer[nth + 2] = redis.call('XADD', outbox, '*', 'c', ARGV[at], 'k', ARGV[at + 1], 'l', ARGV[at + 2], 'r', ARGV[at + 3])
  at = at + 4
end

if version ~= '' then
  redis.call('HSET', view, 'version', version)
  if shown_ms ~= '' then redis.call('HSET', view, 'shownMs', shown_ms) end
end
if incarnation ~= '' then
  if is_whole then redis.call('HSET', view, 'incarnation', incarnation) end
  redis.call('HDEL', view, 'rewound')
end
-- Each write moves the position by one. The first begins at the time in microseconds, ahead of what a lost view had given
-- out. On another process it stays until the view is renewed.
if not written_on then
  local time = redis.call('TIME')
  redis.call('HSET', view, 'process', process, 'position', string.format('%.0f', time[1] * 1e6 + time[2]))
elseif is_whole then
  redis.call('HINCRBY', view, 'position', 1)
end
local position, complete_to, rewound = unpack(redis.call('HMGET', view, 'position', 'version', 'rewound'))
answer[2] = tonumber(position)
-- A view with a version is complete, unless a list of rewound data is under way.
if is_whole and complete_to and rewound ~= '1' then
  redis.call('HSET', objects, '', position)
end
return answer
