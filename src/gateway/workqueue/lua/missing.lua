-- Returns the given keys for which BullMQ has no job, because it was deleted, evicted, or never added by a gateway that ended.
--
-- KEYS[1] what BullMQ's own names are appended to
-- KEYS[2] BullMQ's list of waiting jobs
-- KEYS[3] BullMQ's list of active jobs
-- ARGV    keys
--
-- Answer: keys without a job. If BullMQ has data of a job that is in neither list, the script deletes the data and its deduplication key, because BullMQ would take an add for a duplicate of that job.

-- Longer lists are not read: their order tells enough.
local LONGEST = 10000
local oldest = tonumber(redis.call('LINDEX', KEYS[2], -1) or '')
local short = redis.call('LLEN', KEYS[2]) <= LONGEST
local waiting

local function waits(id)
  if not short then
    -- Jobs come in the order of their ids and leave at the other end, those that have stalled included.
    if oldest and tonumber(id) and tonumber(id) >= oldest then return true end
    return redis.call('LPOS', KEYS[2], id, 'RANK', -1) and true or false
  end
  if not waiting then
    waiting = {}
    for _, each in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do waiting[each] = true end
  end
  return waiting[id] or false
end

local missing = {}
for _, key in ipairs(ARGV) do
  local id = redis.call('GET', KEYS[1] .. 'de:' .. key)
  local job = id and KEYS[1] .. id
  if not id or redis.call('EXISTS', job) == 0 then
    missing[#missing + 1] = key
  elseif redis.call('EXISTS', job .. ':lock') == 0 and not redis.call('LPOS', KEYS[3], id) and not waits(id) then
    redis.call('DEL', job, KEYS[1] .. 'de:' .. key, KEYS[1] .. 'dn:' .. key)
    missing[#missing + 1] = key
  end
end
return missing
