-- Records the values of observed fields of objects that are in a view already: the pass after a field is declared.
--
-- KEYS[1] view    HASH
-- KEYS[2] entries HASH  key -> version \n ...
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] what a field is appended to, to name its HASH: key -> time uid value (same hash tag as KEYS)
-- ARGV[3] the present time, in milliseconds
-- ARGV[4] number of fields, then the fields
-- then    for each object: key, version as it was read, and of each field 'uid value', 'uid \n item \n ...', or '' to
--         leave it
--
-- Answer: number of values that were new, or -1 when the writer is another and nothing was done. An object that has
-- changed since it was read is left alone: the writer that changed it knew of the fields.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end

-- What a HASH of an observed field is to have for an object; nil when it has that already. A value that is as it was keeps
-- its time, and so does each item of 'uid \n item \n ...'.
local function observed_now(stored, value, now)
  local uid, items = string.match(value, '^([^\n]*)(.*)$')
  if items ~= '' then
    local times = {}
    if stored and string.match(stored, '^%d+ ([^\n]*)') == uid then
      for time, item in string.gmatch(stored, '\n(%d+) ([^\n]*)') do times[item] = time end
    end
    local lines = { uid }
    for item in string.gmatch(items, '\n([^\n]*)') do lines[#lines + 1] = (times[item] or now) .. ' ' .. item end
    value = table.concat(lines, '\n')
  end
  if stored and string.sub(stored, string.find(stored, ' ', 1, true) + 1) == value then
    return nil
  end
  return now .. ' ' .. value
end

local fields = tonumber(ARGV[4])
local recorded = 0
for at = 5 + fields, #ARGV, 2 + fields do
  local key, version = ARGV[at], ARGV[at + 1]
  local entry = redis.call('HGET', KEYS[2], key)
  if entry and string.sub(entry, 1, #version + 1) == version .. '\n' then
    for nth = 1, fields do
      local hash, value = ARGV[2] .. ARGV[4 + nth], ARGV[at + 1 + nth]
      local now = value ~= '' and observed_now(redis.call('HGET', hash, key), value, ARGV[3])
      if now then
        redis.call('HSET', hash, key, now)
        recorded = recorded + 1
      end
    end
  end
end
return recorded
