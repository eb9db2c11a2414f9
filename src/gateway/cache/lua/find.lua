-- Finds the objects of a lookup by the indexes of a view, in one trip.
--
-- KEYS[1] view HASH
-- KEYS[2] entries HASH
-- KEYS[3] objects HASH
-- KEYS[4] what an index entry is appended to, to name the SET of keys that carry it (same hash tag)
-- ARGV[1] the declared index that is asked, or ''
-- ARGV[2] if there are no more keys than this, their objects come with them
-- ARGV[3] how many of the index entries that follow each key carries; besides, it carries one of the others, if any
--
-- Answer: nil if the declared index is not complete; else {keys, objects}, the objects in the order of the keys.

if ARGV[1] ~= '' then
  local complete, is_complete = redis.call('HGET', KEYS[1], 'indexes'), false
  for _, index in ipairs(complete and cjson.decode(complete) or {}) do
    if index == ARGV[1] then is_complete = true end
  end
  if not is_complete then return false end
end

local all = {}
for at = 4, 3 + tonumber(ARGV[3]) do all[#all + 1] = KEYS[4] .. ARGV[at] end

local keys = {}
if #ARGV > 3 + #all then
  local last, seen = #all + 1, {}
  for at = 4 + #all, #ARGV do
    all[last] = KEYS[4] .. ARGV[at]
    for _, key in ipairs(redis.call('SINTER', unpack(all))) do
      if not seen[key] then
        seen[key] = true
        keys[#keys + 1] = key
      end
    end
  end
elseif #all > 0 then
  keys = redis.call('SINTER', unpack(all))
else
  keys = redis.call('HKEYS', KEYS[2])
end
local has_objects = #keys > 0 and #keys <= tonumber(ARGV[2])
return { keys, has_objects and redis.call('HMGET', KEYS[3], unpack(keys)) or {} }
